// The document: read, and looked up by path, kernel and step.
async function inflated(id) {
  const text = document.getElementById(id).textContent;
  const raw = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).text();
}

let doc, nodes, strings;
const look = { groups: new Map(), steps: new Map(), errors: new Map(), kernels: new Map(), seconds: new Map(), users: [] };

function into(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value); else map.set(key, [value]);
}

function readDocument(text) {
  doc = JSON.parse(text);
  nodes = doc.graph.nodes;
  strings = doc.graph.strings;
  doc.groups.forEach((group, number) => {
    for (const path of group.paths) into(look.groups, path, number);
  });
  doc.kernels.forEach((kernel, number) => look.kernels.set(kernel.name, number));
  for (const [number, step] of (doc.times ? doc.times.steps : []).entries()) {
    for (const path of step.computes) into(look.steps, path, number);
    look.seconds.set(step.kernel, (look.seconds.get(step.kernel) || 0) + step.seconds);
  }
  for (const value of doc.errors ? doc.errors.values : []) {
    const path = value.name.replace(/ \([^()]*\)$/, '');
    into(look.errors, path, value);
  }
  look.users = nodes.name.map(() => []);
  nodes.inputs.forEach((inputs, reader) => {
    for (const read of new Set(inputs)) look.users[read].push(reader);
  });
}

const opOf = n => strings[nodes.op[n]];
const typeOf = n => strings[nodes.type[n]];
const isDrawn = n => nodes.kind[n] !== 'weight' && nodes.kind[n] !== 'constant';
const lastPart = name => name.slice(name.lastIndexOf('.') + 1);
const nameOf = n => nodes.name[n] || opOf(n);

function placeText(place) {
  if (!place || !place.length) return '';
  return `${doc.files[place[0]].name}:${place[1]}`;
}

function lineText(place) {
  if (!place || !place.length || doc.files[place[0]].text === null) return '';
  const file = doc.files[place[0]];
  file.lines = file.lines || file.text.split('\n');
  return file.lines[place[1] - 1] || '';
}

function secondsOf(paths) {
  const steps = new Set();
  for (const path of paths) for (const step of look.steps.get(path) || []) steps.add(step);
  let sum = 0;
  for (const step of steps) sum += doc.times.steps[step].seconds;
  return sum;
}

// The largest share of its bound that a value of the path takes; undefined where nothing was judged.
function errorOf(path) {
  let most;
  for (const value of look.errors.get(path) || []) {
    const share = value.share_of_bound === null ? Infinity : value.share_of_bound;
    most = Math.max(most || 0, value.verdict === 'wrong' ? Infinity : share);
  }
  return most;
}

// The groups that compute a node: those of its path or, where passes merged it into others, those of the nearest that read it.
function groupsOf(node) {
  let front = [node];
  for (let far = 0; far < 8 && front.length; far += 1) {
    const found = new Set(front.flatMap(n => look.groups.get(nodes.name[n]) || []));
    if (found.size) return [...found];
    front = [...new Set(front.flatMap(n => look.users[n]))].slice(0, 64);
  }
  return [];
}
