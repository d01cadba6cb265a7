// Places of nodes: each open block is laid out by itself, by ELK in a worker.
const HEAD = 34, PAD = 14, NODE = 42;
const layouts = new Map();
let worker, asked = 0, measure;
const waiting = new Map();

async function startWorker() {
  const code = await inflated('worker');
  const url = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
  worker = new Worker(url);
  worker.onmessage = ({ data }) => {
    const promise = waiting.get(data.id);
    waiting.delete(data.id);
    if (promise) data.error ? promise.reject(new Error(String(data.error.message || data.error))) : promise.resolve(data.data);
  };
  worker.onerror = event => { for (const promise of waiting.values()) promise.reject(new Error(event.message)); };
  await ask({ cmd: 'register', algorithms: ['layered'] });
}

function ask(message) {
  return new Promise((resolve, reject) => {
    const id = asked++;
    waiting.set(id, { resolve, reject });
    worker.postMessage({ id, ...message });
  });
}

function widthOf(text, font) {
  measure = measure || document.createElement('canvas').getContext('2d');
  measure.font = font;
  return measure.measureText(text).width;
}

const sans = () => getComputedStyle(document.body).fontFamily;
const shortened = (text, most) => text.length <= most ? text : `${text.slice(0, most - 1)}…`;

function sizeOf(item) {
  const title = widthOf(shortened(titleOf(item), 34), `650 12px ${sans()}`);
  const under = widthOf(shortened(underOf(item), 40), '10.5px ui-monospace, monospace');
  return { width: Math.ceil(Math.max(96, title + 44, under + 30)), height: NODE };
}

// The layout of a block's inside, with the blocks in it that are open: sizes, places and edges.
async function laidOut(block, open) {
  const key = `${block}:${[...open].filter(b => b === block || isInside(b, block)).sort((a, b) => a - b).join()}`;
  if (layouts.has(key)) return layouts.get(key);
  const inner = new Map();
  const children = [];
  for (const item of tree.children[block]) {
    const number = Number(item.slice(1));
    if (item[0] === 'b' && open.has(number)) {
      const found = await laidOut(number, open);
      inner.set(item, found);
      const least = sizeOf(item).width;
      children.push({ id: item, width: Math.max(least, found.width + 2 * PAD), height: found.height + HEAD + PAD });
    } else children.push({ id: item, ...sizeOf(item) });
  }
  const edges = [...tree.edges[block].keys()].map((key, number) => {
    const [from, to] = key.split(' ');
    return { id: `e${number}`, sources: [from], targets: [to] };
  });
  const graph = { id: 'root', children, edges, layoutOptions: optionsFor(children.length, edges.length) };
  const done = await ask({ cmd: 'layout', graph, layoutOptions: {}, options: {} });
  const result = { block, width: done.width, height: done.height, items: done.children, edges: done.edges, inner };
  layouts.set(key, result);
  return result;
}

function optionsFor(children, edges) {
  const large = children + edges > 700;
  return {
    'elk.algorithm': 'layered',
    'elk.direction': 'DOWN',
    'elk.edgeRouting': large ? 'POLYLINE' : 'ORTHOGONAL',
    'elk.layered.thoroughness': large ? '1' : '5',
    'elk.layered.nodePlacement.strategy': large ? 'LINEAR_SEGMENTS' : 'NETWORK_SIMPLEX',
    'elk.padding': '[top=2,left=2,bottom=2,right=2]',
    'elk.spacing.nodeNode': '18',
    'elk.spacing.edgeNode': '12',
    'elk.layered.spacing.nodeNodeBetweenLayers': '30',
    'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
  };
}

function isInside(block, outer) {
  for (let at = doc.graph.blocks[block].parent; at >= 0; at = doc.graph.blocks[at].parent) if (at === outer) return true;
  return false;
}
