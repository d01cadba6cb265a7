// The pane beside the graph: what a node is, what became of it and why.
function details(item) {
  const side = view.side;
  if (!item) { side.replaceChildren(...overviewOfGraph()); return; }
  side.replaceChildren(...(item[0] === 'n' ? nodeDetails(Number(item.slice(1))) : blockDetails(Number(item.slice(1)))));
  side.scrollTop = 0;
}

const section = (title, ...rows) => rows.flat(Infinity).filter(Boolean).length ? [h('h3', {}, title), ...rows.flat(Infinity).filter(Boolean)] : [];
const listOf = rows => rows.length ? h('ul', {}, rows.map(row => h('li', {}, row))) : null;

function overviewOfGraph() {
  const drawnNodes = nodes.name.filter((_, n) => isDrawn(n)).length;
  return [
    h('h2', {}, doc.graph.name), h('p', { class: 'why' }, `${plural(drawnNodes, 'node')}, ${plural(doc.graph.blocks.length - 1, 'block')}.`),
    ...section('Inputs', listOf(doc.graph.inputs.map(nodeLink))),
    ...section('Outputs', listOf(Object.entries(doc.graph.outputs).map(([name, n]) => [link(name, () => reveal(itemOf(n))), ' ', h('span', { class: 'type' }, typeOf(n))]))),
    ...section('Keys', h('p', { class: 'why' }, 'Arrows go from node to node, Enter opens or closes a block, Esc goes to the block around, + and − zoom, 0 shows all of it, / searches.')),
  ];
}

function nodeLink(n) {
  return [isDrawn(n) ? link(nameOf(n), () => reveal(itemOf(n))) : nameOf(n), ' ', h('span', { class: 'type' }, typeOf(n))];
}

function nodeDetails(n) {
  const path = nodes.name[n];
  const inputs = nodes.inputs[n];
  const place = nodes.place[n];
  return [
    h('h2', {}, nameOf(n)),
    h('p', {}, h('span', { class: 'chip' }, nodes.kind[n] === 'op' ? opOf(n) : nodes.kind[n]), ' ', h('span', { class: 'type' }, typeOf(n))),
    ...section('Attributes', strings[nodes.attributes[n]] && h('p', { class: 'type' }, strings[nodes.attributes[n]])),
    ...section(placeText(place), lineText(place) && h('div', { class: 'code' }, codeLines([lineText(place)], place[1]))),
    ...section('Reads', listOf(inputs.filter(isDrawn).map(nodeLink))),
    ...section('Weights and constants', listOf(inputs.filter(i => !isDrawn(i)).map(nodeLink))),
    ...section('Read by', listOf(look.users[n].slice(0, 30).map(nodeLink))),
    ...becameOf(path, n), ...measuredOf([path]),
  ];
}

function blockDetails(number) {
  const block = doc.graph.blocks[number];
  const inside = insideOf(number);
  const ops = d3.rollups(inside.filter(n => nodes.kind[n] === 'op'), list => list.length, opOf).sort((a, b) => b[1] - a[1]);
  const paths = pathsOf(`b${number}`);
  const kernels = new Set(paths.flatMap(path => (look.groups.get(path) || []).flatMap(g => doc.groups[g].kernels)));
  const open = view.open.has(number);
  return [
    h('h2', {}, chainOf(`b${number}`).map(titleOf).join('.')),
    h('p', {}, h('span', { class: 'chip' }, 'block'), ' ', plural(inside.length, 'node'), ' ',
      h('button', { class: 'button', type: 'button', onclick: () => toggle(`b${number}`) }, open ? 'Close' : 'Open')),
    ...section('Operations', listOf(ops.slice(0, 14).map(([op, many]) => `${many} × ${op}`))),
    ...section('Kernels', listOf([...kernels].slice(0, 40).map(kernelLink))),
    ...(block.node >= 0 ? becameOf(nodes.name[block.node], block.node) : []), ...measuredOf(paths),
  ];
}

const kernelLink = name => look.kernels.has(name) ? link(name, () => showKernel(name)) : name;

// Which kernels compute a path, with what, and why not more.
function becameOf(path, node) {
  const groups = look.groups.get(path);
  if (groups) return groups.flatMap(number => groupDetails(doc.groups[number], path));
  if (nodes.kind[node] !== 'op') return [];
  const into = node === undefined ? [] : groupsOf(node);
  const said = into.length ? 'No kernel by its own name: passes made it part of what reads it, which is computed here.' : 'None: computed when it was compiled, or needed by nobody.';
  return [...section('Kernel', h('p', { class: 'why' }, said)), ...into.flatMap(number => groupDetails(doc.groups[number], path))];
}

function groupDetails(group, path) {
  const others = [...new Set(group.nodes)].filter(label => !path || !label.startsWith(`${path} (`));
  return [
    h('h3', {}, group.kernels.length > 1 ? 'Kernels' : 'Kernel'),
    h('p', {}, group.kernels.length ? [...new Set(group.kernels)].map((name, at) => [at ? ', ' : '', kernelLink(name)]) : group.how, ' ', h('span', { class: 'chip' }, group.kind)),
    group.kernels.length && group.how ? h('p', { class: 'why' }, group.how) : null,
    h('p', { class: 'why' }, `${flops(group.flops)}, ${bytes(group.bytes)} moved`),
    ...section('Fused with', path && others.length ? listOf(others.slice(0, 24)) : null),
    ...section('Why together', listOf(group.why)),
    ...section('Why no more', listOf([
      ...group.reads.map(([why, labels]) => [`reads ${labels.slice(0, 6).join(', ')} from memory: `, h('span', { class: 'why' }, why)]),
      ...group.writes.map(([why, labels]) => [`writes ${labels.slice(0, 6).join(', ')} to memory: `, h('span', { class: 'why' }, why)]),
    ])),
  ].filter(Boolean);
}

function measuredOf(paths) {
  const rows = [];
  if (doc.times) {
    const spent = secondsOf(paths);
    rows.push(...section('Time', spent ? h('p', {}, `${time(spent)}, ${percent(spent / doc.times.seconds)} of a call`, h('span', { class: 'why' }, ' (whole kernels that compute it)'), bar(spent / doc.times.seconds)) : null));
  }
  const errors = paths.flatMap(path => look.errors.get(path) || []);
  rows.push(...section('Error', listOf(errors.slice(0, 8).map(value => [
    h('span', { class: `chip ${value.verdict === 'right' ? 'good' : 'bad'}` }, value.verdict), ` ${shownError(value)} against ${value.against}`]))));
  return rows;
}

const digits = value => typeof value === 'number' ? Number(value.toPrecision(3)).toString() : String(value);
const shownError = value => `${digits(value.ulp)} ulp, relative ${digits(value.relative)}${value.share_of_bound === null ? '' : `, ${percent(value.share_of_bound)} of its bound`}`;
