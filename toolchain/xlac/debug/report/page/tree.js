// The tree of blocks, and the edges between the children of each. Items are 'b3' (a block) and 'n12' (a node).
const tree = { children: [], edges: [], parent: new Map(), loop: new Map(), inside: [] };

function makeTree() {
  const blocks = doc.graph.blocks;
  tree.children = blocks.map(() => []);
  tree.edges = blocks.map(() => new Map());
  blocks.forEach((block, number) => { if (block.node >= 0) tree.loop.set(block.node, number); });
  const first = blocks.map(() => Infinity);
  nodes.block.forEach((home, node) => {
    if (!isDrawn(node)) return;
    if (!tree.loop.has(node)) { tree.children[home].push([node, `n${node}`]); tree.parent.set(`n${node}`, home); }
    for (let at = home; at >= 0; at = blocks[at].parent) first[at] = Math.min(first[at], node);
  });
  blocks.forEach((block, number) => {
    if (number === 0 || first[number] === Infinity && block.node < 0) return;
    tree.children[block.parent].push([Math.min(first[number], block.node < 0 ? Infinity : block.node), `b${number}`]);
    tree.parent.set(`b${number}`, block.parent);
  });
  for (const list of tree.children) { list.sort((a, b) => a[0] - b[0]); list.forEach((entry, at) => { list[at] = entry[1]; }); }
  const chains = nodes.name.map((_, node) => isDrawn(node) ? chainOf(itemOf(node)) : null);
  nodes.inputs.forEach((inputs, reader) => {
    if (!chains[reader]) return;
    for (const read of inputs) if (chains[read]) addEdge(chains[read], chains[reader]);
  });
  tree.inside = blocks.map(() => null);
}

const itemOf = node => tree.loop.has(node) ? `b${tree.loop.get(node)}` : `n${node}`;

// From the outermost item to the item itself.
function chainOf(item) {
  const chain = [];
  for (let at = item; at !== undefined && at !== 'b0';) {
    chain.push(at);
    const home = tree.parent.get(at);
    at = home === undefined ? undefined : `b${home}`;
  }
  return chain.reverse();
}

function addEdge(from, to) {
  let depth = 0;
  while (depth < from.length && depth < to.length && from[depth] === to[depth]) depth += 1;
  if (depth >= from.length || depth >= to.length) return;
  const home = tree.parent.get(from[depth]);
  const key = `${from[depth]} ${to[depth]}`;
  tree.edges[home].set(key, (tree.edges[home].get(key) || 0) + 1);
}

// Every drawn node inside a block.
function insideOf(block) {
  if (!tree.inside[block]) {
    const all = [];
    const loop = doc.graph.blocks[block].node;
    if (loop >= 0) all.push(loop);
    for (const item of tree.children[block]) {
      const number = Number(item.slice(1));
      if (item[0] === 'n') all.push(number); else for (const node of insideOf(number)) all.push(node);
    }
    tree.inside[block] = all;
  }
  return tree.inside[block];
}

const pathsOf = item => item[0] === 'n' ? [nodes.name[Number(item.slice(1))]] : [...new Set(insideOf(Number(item.slice(1))).map(n => nodes.name[n]))];

function titleOf(item) {
  const number = Number(item.slice(1));
  if (item[0] === 'b') return doc.graph.blocks[number].name || 'the compiler';
  const name = lastPart(nameOf(number));
  // of several nodes with one path each is known by its operation
  return name === doc.graph.blocks[nodes.block[number]].name ? opOf(number) : name;
}

function underOf(item) {
  const number = Number(item.slice(1));
  if (item[0] === 'n') {
    const kind = nodes.kind[number];
    const op = kind === 'op' ? opOf(number) : kind;
    return op === titleOf(item) ? typeOf(number) : `${op}  ${typeOf(number)}`;
  }
  const loop = doc.graph.blocks[number].node;
  return `${loop >= 0 ? `${opOf(loop)}, ` : ''}${plural(insideOf(number).length, 'node')}`;
}
