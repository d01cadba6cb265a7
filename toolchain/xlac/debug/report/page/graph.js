// The view of the graph: what is open, what is picked, zoom, keys.
const places = new Map();
const view = { open: new Set(), picked: null, mode: 'operation', zoom: null, svg: null, inner: null, version: 0 };
const MOST = 1200; // drawn items; more are not opened at once

function graphPanel() {
  const select = h('select', { class: 'button', 'aria-label': 'Colours', onchange: () => { view.mode = select.value; refresh(); } },
    Object.entries(modes).filter(([, mode]) => mode).map(([name]) => h('option', { value: name }, `colours: ${name}`)));
  view.inner = s('g');
  view.svg = s('svg', { role: 'application', 'aria-label': 'The graph as it was written. Arrow keys go from node to node, Enter opens a block.', tabindex: '0' },
    s('defs', {}, s('marker', { id: 'head', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto' }, s('path', { class: 'head', d: 'M0,0 L8,4 L0,8 z' }))),
    view.inner);
  view.busy = h('span', { class: 'chip busy', role: 'status', hidden: true }, 'laying out …');
  view.legend = h('div', { class: 'legend' });
  view.side = h('aside', { class: 'side', 'aria-label': 'Details', tabindex: '0' });
  const button = (text, title, action) => h('button', { class: 'button', type: 'button', title, onclick: action }, text);
  const stage = h('div', { class: 'stage' }, view.svg,
    h('div', { class: 'tools' }, select, button('Fit', 'All of it (0)', fit), button('+', 'Nearer (+)', () => zoomBy(1.4)), button('−', 'Farther (−)', () => zoomBy(1 / 1.4)),
      button('Open a level', 'Open the closed blocks that are shown', openLevel), button('Close all', 'Close every block', closeAll)),
    view.legend, view.busy);
  view.zoom = d3.zoom().scaleExtent([0.02, 4]).on('zoom', event => { view.inner.setAttribute('transform', event.transform); });
  d3.select(view.svg).call(view.zoom).on('dblclick.zoom', null);
  view.svg.addEventListener('click', event => {
    const target = event.target.closest('.node');
    if (!target) return pick(null);
    const item = target.dataset.item;
    if (item[0] === 'b' && (event.target.classList.contains('sign') || view.picked === item || event.detail > 1)) toggle(item); else pick(item);
  });
  view.svg.addEventListener('keydown', graphKeys);
  return h('div', { class: 'graph' }, stage, view.side);
}

async function refresh(keep) {
  const version = ++view.version;
  view.busy.hidden = false;
  const before = keep && places.get(keep);
  let layout;
  try {
    await view.worker;
    layout = await laidOut(0, view.open);
  } catch (error) {
    view.busy.textContent = `The graph cannot be laid out: ${error.message}`;
    throw error;
  }
  if (version !== view.version) return;
  const focused = view.svg.contains(document.activeElement);
  places.clear();
  view.inner.replaceChildren();
  drawn(layout, view.open, view.mode, view.inner);
  view.size = [layout.width, layout.height];
  view.legend.replaceChildren(...modes[view.mode].legend().map(([colour, text]) => {
    const mark = h('i');
    mark.style.background = colour;
    return h('span', {}, mark, text);
  }));
  view.busy.hidden = true;
  const after = keep && places.get(keep);
  if (before && after) {
    const t = d3.zoomTransform(view.svg);
    d3.select(view.svg).call(view.zoom.transform, t.translate(before.x - after.x, before.y - after.y));
  }
  mark(focused);
}

function toggle(item) {
  const block = Number(item.slice(1));
  if (view.open.has(block)) view.open.delete(block); else view.open.add(block);
  view.picked = item;
  details(item);
  return refresh(item);
}

const shownItems = open => {
  let many = 0;
  const visit = block => { for (const item of tree.children[block]) { many += 1; if (item[0] === 'b' && open.has(Number(item.slice(1)))) visit(Number(item.slice(1))); } };
  visit(0);
  return many;
};

function openLevel() {
  const closed = [...places.keys()].filter(item => item[0] === 'b' && !view.open.has(Number(item.slice(1))));
  for (const item of closed) {
    const more = new Set([...view.open, Number(item.slice(1))]);
    if (shownItems(more) > MOST) break;
    view.open = more;
  }
  return refresh().then(fit);
}

function closeAll() {
  view.open.clear();
  return refresh().then(fit);
}

// Opens small models by themselves, outermost blocks first.
function openAtFirst() {
  const queue = [0];
  while (queue.length) {
    const block = queue.shift();
    for (const item of tree.children[block]) {
      if (item[0] !== 'b') continue;
      const more = new Set([...view.open, Number(item.slice(1))]);
      if (shownItems(more) > 26) return;
      view.open = more;
      queue.push(Number(item.slice(1)));
    }
  }
}

function fit() {
  const { width, height } = view.svg.getBoundingClientRect();
  if (!view.size || !width) return;
  const [w, h1] = view.size;
  const scale = Math.min(1.1, 0.94 * Math.min(width / w, (height - 90) / h1));
  const readable = Math.max(scale, Math.min(0.8, 0.94 * width / w)); // long graphs begin at their top
  const top = h1 * readable <= height - 70 ? (height - h1 * readable) / 2 + 15 : 66;
  d3.select(view.svg).call(view.zoom.transform, d3.zoomIdentity.translate((width - w * readable) / 2, top).scale(readable));
}

const zoomBy = factor => d3.select(view.svg).call(view.zoom.scaleBy, factor);

function mark(focused = view.svg.contains(document.activeElement)) {
  for (const element of view.inner.querySelectorAll('.picked, .lit')) element.classList.remove('picked', 'lit');
  const all = [...view.inner.querySelectorAll('.node')];
  for (const element of all) element.setAttribute('tabindex', '-1');
  const chosen = view.picked && all.find(element => element.dataset.item === view.picked);
  (chosen || all[0] || view.svg).setAttribute('tabindex', '0');
  if (!chosen) return;
  chosen.classList.add('picked');
  for (const edge of view.inner.querySelectorAll('.edge')) {
    if (edge.dataset.from === view.picked || edge.dataset.to === view.picked) edge.classList.add('lit');
  }
  if (focused) chosen.focus({ preventScroll: true });
}

function pick(item) {
  view.picked = item;
  details(item);
  mark();
}

function centre(item) {
  const place = places.get(item);
  if (!place) return;
  const t = d3.zoomTransform(view.svg);
  const scale = Math.max(t.k, 0.75);
  const { width, height } = view.svg.getBoundingClientRect();
  const y = place.height > height / scale ? place.y + height / scale / 3 : place.y + place.height / 2;
  d3.select(view.svg).call(view.zoom.transform, d3.zoomIdentity.translate(width / 2 - scale * (place.x + place.width / 2), height / 2 - scale * y).scale(scale));
}

// Opens what is around a node and shows it.
async function reveal(item) {
  showPanel('graph');
  for (const outer of chainOf(item).slice(0, -1)) view.open.add(Number(outer.slice(1)));
  view.picked = item;
  details(item);
  await refresh();
  centre(item);
}

function graphKeys(event) {
  const steps = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (steps[event.key]) { event.preventDefault(); go(steps[event.key]); }
  else if ((event.key === 'Enter' || event.key === ' ') && view.picked) { event.preventDefault(); if (view.picked[0] === 'b') toggle(view.picked); else view.side.focus(); }
  else if (event.key === 'Escape' && view.picked) { const home = tree.parent.get(view.picked); if (home) { pick(`b${home}`); centre(view.picked); } }
  else if (event.key === '+' || event.key === '=') zoomBy(1.4);
  else if (event.key === '-') zoomBy(1 / 1.4);
  else if (event.key === '0') fit();
}

// The nearest item in a direction.
function go([dx, dy]) {
  const from = places.get(view.picked);
  let best, least = Infinity;
  for (const [item, place] of places) {
    if (item === view.picked) continue;
    if (!from) { best = best || item; continue; }
    const x = place.x + place.width / 2 - from.x - from.width / 2, y = place.y + Math.min(place.height, NODE) / 2 - from.y - Math.min(from.height, NODE) / 2;
    const along = x * dx + y * dy, across = Math.abs(x * dy + y * dx);
    if (along > 4 && along + 2.5 * across < least) { least = along + 2.5 * across; best = item; }
  }
  if (best) { view.svg.focus({ preventScroll: true }); pick(best); centre(best); }
}
