// Tables that are sorted by a click on a head, filtered by a word, and drawn a part at a time.
const PART = 200;

// columns: {head, value(row), show(row), number}
function table(columns, rows, options = {}) {
  const state = { by: options.by ?? -1, down: true, word: '', most: PART };
  const body = h('tbody');
  const more = h('button', { class: 'button', type: 'button', onclick: () => { state.most += 1000; fill(); } });
  const heads = columns.map((column, at) => h('th', { class: column.number ? 'number' : '', scope: 'col' },
    h('button', { type: 'button', onclick: () => { state.down = state.by === at ? !state.down : Boolean(column.number); state.by = at; fill(); } }, column.head)));
  const value = (row, at) => columns[at].value ? columns[at].value(row) : columns[at].show(row);
  function fill() {
    let shown = rows;
    if (state.word) shown = shown.filter(row => columns.some((_, at) => String(value(row, at)).toLowerCase().includes(state.word)));
    if (state.by >= 0) shown = [...shown].sort((a, b) => (state.down ? -1 : 1) * d3.ascending(value(a, state.by), value(b, state.by)));
    heads.forEach((head, at) => head.setAttribute('aria-sort', at === state.by ? state.down ? 'descending' : 'ascending' : 'none'));
    body.replaceChildren(...shown.slice(0, state.most).map(row => h('tr', { class: options.chosen && options.chosen(row) ? 'chosen' : '' },
      columns.map(column => h('td', { class: column.number ? 'number' : '' }, column.show(row))))));
    more.textContent = `Show more of ${count(shown.length)} rows`;
    more.hidden = shown.length <= state.most;
  }
  fill();
  const filter = options.filter && h('input', { class: 'button', type: 'search', placeholder: 'filter', 'aria-label': 'Filter rows', oninput: event => { state.word = event.target.value.toLowerCase(); fill(); } });
  const made = h('div', {}, h('table', {}, h('thead', {}, h('tr', {}, heads)), body), more);
  return options.filter ? [made, filter] : made;
}

function fusionPanel() {
  const groups = doc.groups.map((group, number) => ({ ...group, number }));
  const [content, filter] = table([
    { head: '#', value: g => g.number, show: g => g.number, number: true },
    { head: 'Kernel', value: g => g.kernels.join(), show: g => g.kernels.length ? [...new Set(g.kernels)].map(name => h('div', {}, kernelLink(name))) : h('span', { class: 'dim' }, g.how) },
    { head: 'Kind', value: g => g.kind, show: g => h('span', { class: 'chip' }, g.kind) },
    { head: 'Computes', value: g => g.computes.join(), show: g => g.computes.map(text => h('div', {}, text)) },
    { head: 'Nodes in it', value: g => g.nodes.join(' '), show: g => [...new Set(g.nodes)].slice(0, 12).join(', ') + (g.nodes.length > 12 ? ', …' : '') },
    { head: 'Why together', value: g => g.why.join(), show: g => g.why.map(text => h('div', {}, text)) },
    { head: 'Why no more', value: g => [...g.reads, ...g.writes].map(entry => entry[0]).join(), show: g => [
      ...g.reads.map(([why, labels]) => h('div', {}, `reads ${labels.slice(0, 3).join(', ')}: `, h('span', { class: 'dim' }, why))),
      ...g.writes.map(([why, labels]) => h('div', {}, `writes ${labels.slice(0, 3).join(', ')}: `, h('span', { class: 'dim' }, why)))] },
    { head: 'Arithmetic', value: g => g.flops, show: g => flops(g.flops), number: true },
    { head: 'Moved', value: g => g.bytes, show: g => bytes(g.bytes), number: true },
  ], groups, { filter: true });
  return [h('h2', {}, 'Fusion'), h('p', { class: 'lead' }, 'Each row is a group of nodes that became kernels together, in the order in which they run; why they are together, and why their neighbours are not in it.'), box('Groups', content, filter)];
}

function passesPanel() {
  const rows = doc.passes.map(pass => {
    const fold = h('div', { class: 'fold' });
    const many = pass.changes ? pass.changes.length : 0;
    const element = h('details', {}, h('summary', {}, h('strong', {}, pass.name), h('span', { class: 'dim' }, time(pass.seconds)),
      h('span', { class: 'grow' }), pass.changed ? `${count(pass.nodes[0])} → ${plural(pass.nodes[1], 'node')}, ${plural(many, 'path')} changed` : h('span', { class: 'dim' }, 'nothing to do')), fold);
    element.addEventListener('toggle', () => { if (element.open && !fold.firstChild) showChanges(fold, pass.changes || [], 0); });
    return element;
  });
  return [h('h2', {}, 'Passes'), h('p', { class: 'lead' }, 'Before and after each pass, by the path that you gave the nodes: on the left what went, on the right what came.'), h('section', { class: 'box' }, rows)];
}

function showChanges(fold, changes, from) {
  const part = changes.slice(from, from + 40);
  if (!changes.length) fold.append(h('p', { class: 'dim' }, 'The graph is the same.'));
  for (const [path, gone, made] of part) {
    fold.append(h('div', { class: 'diff' }, h('h3', {}, path || 'made by the compiler'),
      h('pre', { class: gone.length ? 'gone' : 'none' }, gone.join('\n') || '(nothing)'), h('pre', { class: made.length ? 'made' : 'none' }, made.join('\n') || '(nothing)')));
  }
  const left = changes.length - from - part.length;
  if (left > 0) {
    const button = h('button', { class: 'button', type: 'button', onclick: () => { button.remove(); showChanges(fold, changes, from + 40); } }, `Show more of ${count(left)} paths`);
    fold.append(button);
  }
}
