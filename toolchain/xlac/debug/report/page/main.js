// Begins: reads the document, makes the frame, and answers keys.
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redrawAll();
}

const themeNow = () => document.documentElement.dataset.theme;

function searchBox() {
  const hits = h('div', { class: 'hits', role: 'listbox', id: 'hits', hidden: true });
  let chosen = 0, found = [];
  const input = h('input', { type: 'search', placeholder: 'Search nodes, blocks, kernels', 'aria-label': 'Search', role: 'combobox', 'aria-controls': 'hits', 'aria-expanded': 'false', autocomplete: 'off', spellcheck: 'false' });
  const close = () => { hits.hidden = true; input.setAttribute('aria-expanded', 'false'); };
  const take = hit => { close(); input.blur(); hit.go(); };
  function show() {
    found = search(input.value.trim().toLowerCase());
    chosen = 0;
    fill();
  }
  function fill() {
    hits.replaceChildren(...found.map((hit, at) => h('button', { class: 'hit', type: 'button', role: 'option', tabindex: '-1', 'aria-selected': String(at === chosen), onmousedown: event => event.preventDefault(), onclick: () => take(hit) },
      h('span', { class: 'kind' }, hit.kind), h('span', {}, hit.name), h('span', { class: 'type' }, hit.note))));
    if (!found.length && input.value.trim()) hits.append(h('p', { class: 'dim' }, 'Nothing has this in its name.'));
    hits.hidden = !input.value.trim();
    input.setAttribute('aria-expanded', String(!hits.hidden));
  }
  input.addEventListener('input', show);
  input.addEventListener('focus', show);
  input.addEventListener('blur', close);
  input.addEventListener('keydown', event => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      chosen = (chosen + (event.key === 'ArrowDown' ? 1 : -1) + found.length) % Math.max(1, found.length);
      fill();
      hits.children[chosen]?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' && found[chosen]) take(found[chosen]);
    else if (event.key === 'Escape') { input.value = ''; input.blur(); }
  });
  frame.search = input;
  return h('div', { class: 'search' }, input, h('kbd', {}, '/'), hits);
}

function search(word) {
  if (!word) return [];
  const found = [];
  const add = (rank, kind, name, note, go) => found.push({ rank, kind, name, note, go });
  const rank = name => { const at = name.toLowerCase().indexOf(word); return at < 0 ? -1 : name.length === word.length ? 0 : at === 0 || name[at - 1] === '.' ? 1 : 2; };
  for (const kernel of doc.kernels) if (rank(kernel.name) >= 0) add(rank(kernel.name), 'kernel', kernel.name, flops(kernel.flops), () => showKernel(kernel.name));
  doc.graph.blocks.forEach((block, number) => { if (number && rank(block.name) >= 0 && found.length < 4000) add(rank(block.name), 'block', chainOf(`b${number}`).map(titleOf).join('.'), plural(insideOf(number).length, 'node'), () => reveal(`b${number}`)); });
  for (let n = 0; n < nodes.name.length && found.length < 4000; n += 1) {
    if (!isDrawn(n)) continue;
    const by = rank(nodes.name[n]);
    const op = by < 0 ? rank(opOf(n)) : -1;
    if (by >= 0 || op >= 0) add(by >= 0 ? by : 3 + op, nodes.kind[n] === 'op' ? opOf(n) : nodes.kind[n], nameOf(n), typeOf(n), () => reveal(itemOf(n)));
  }
  return found.sort((a, b) => a.rank - b.rank || a.name.length - b.name.length).slice(0, 60);
}

const frame = {};

function makeFrame() {
  const model = doc.model;
  const help = h('dialog', { 'aria-label': 'Keys' }, h('h2', {}, 'Keys'), h('dl', {}, [
    ['/', 'search nodes, blocks, kernels and operations'], ['1 – 9, 0', 'the pages on the left, outside the graph'], ['t', 'dark or light'], ['?', 'this'],
    ['← ↑ → ↓', 'in the graph: to the next node; in lists: the next entry'], ['Enter', 'opens or closes a block, or goes to the details of a node'], ['Esc', 'to the block around'], ['+ − 0', 'in the graph: nearer, farther, all of it'],
  ].map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])), h('form', { method: 'dialog' }, h('button', { class: 'button' }, 'Close')));
  const top = h('header', { class: 'top' }, h('span', { class: 'brand' }, 'xlac'), h('span', { class: 'model', title: model.name }, model.name), h('span', { class: 'chip' }, model.target), h('span', { class: 'chip' }, plural(model.threads, 'thread')),
    doc.errors && h('span', { class: `chip ${doc.errors.verdict === 'right' ? 'good' : 'bad'}` }, doc.errors.verdict === 'right' ? 'verified' : 'wrong'), h('span', { class: 'grow' }), searchBox(),
    h('button', { class: 'icon', type: 'button', title: 'Dark or light (t)', 'aria-label': 'Dark or light', onclick: () => setTheme(themeNow() === 'dark' ? 'light' : 'dark') }, '◐'),
    h('button', { class: 'icon', type: 'button', title: 'Keys (?)', 'aria-label': 'Keys', onclick: () => help.showModal() }, '?'));
  const nav = h('nav', { class: 'nav', role: 'tablist', 'aria-label': 'Pages', 'aria-orientation': 'vertical' });
  const main = h('main', { id: 'main' });
  for (const [name, panel] of Object.entries(panels)) {
    panel.tab = h('button', { class: 'tab', type: 'button', role: 'tab', id: `tab-${name}`, 'aria-controls': `panel-${name}`, onclick: () => showPanel(name) }, panel.title, h('span', { class: 'count' }, panel.many ? count(panel.many() || 0) : ''));
    panel.element = h('div', { class: `panel${panel.flush ? ' flush' : ''}`, role: 'tabpanel', id: `panel-${name}`, 'aria-labelledby': `tab-${name}`, hidden: true });
    nav.append(panel.tab);
    main.append(panel.element);
  }
  nav.addEventListener('keydown', event => {
    const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const names = Object.keys(panels);
    const next = names[(names.indexOf(location.hash.slice(1)) + move + names.length) % names.length];
    showPanel(next);
    panels[next].tab.focus();
  });
  nav.append(h('div', { class: 'foot' }, `xlac ${model.version}`));
  document.getElementById('app').replaceChildren(top, nav, main);
  document.body.append(help);
  frame.help = help;
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const inGraph = view.svg && view.svg.contains(event.target);
  const number = '1234567890'.indexOf(event.key);
  if (event.key === '/') { event.preventDefault(); frame.search.focus(); }
  else if (event.key === 't') setTheme(themeNow() === 'dark' ? 'light' : 'dark');
  else if (event.key === '?') frame.help.showModal();
  else if (number >= 0 && !inGraph && Object.keys(panels)[number]) showPanel(Object.keys(panels)[number]);
}

async function begin() {
  setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  readDocument(await inflated('document'));
  performance.mark('read');
  makeTree();
  prepareColours();
  performance.mark('tree');
  makeFrame();
  document.addEventListener('keydown', keys);
  addEventListener('resize', redrawAll);
  addEventListener('hashchange', () => showPanel(location.hash.slice(1)));
  const started = startWorker();
  view.worker = started;
  performance.mark('frame');
  showPanel(Object.hasOwn(panels, location.hash.slice(1)) ? location.hash.slice(1) : document.body.dataset.opens);
  await view.ready;
  document.documentElement.dataset.ready = 'true';
}

begin().catch(error => {
  document.getElementById('app').replaceChildren(h('p', { class: 'loading', role: 'alert' }, `This report cannot be shown: ${error.message}`));
  throw error;
});
