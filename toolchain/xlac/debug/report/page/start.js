// Elements and numbers as text. Every text is set as text, never as markup.
const SVG = 'http://www.w3.org/2000/svg';

function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  return filled(element, properties, children);
}

function s(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const count = d3.format(',');

function scaled(value, units, step = 1000) {
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) { value /= step; unit += 1; }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

const bytes = value => scaled(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const flops = value => scaled(value, ['flop', 'kflop', 'Mflop', 'Gflop', 'Tflop']);
const rate = value => scaled(value, ['flop/s', 'kflop/s', 'Mflop/s', 'Gflop/s', 'Tflop/s']);
const flow = value => scaled(value, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);

function time(seconds) {
  if (!seconds) return '0 s';
  for (const [unit, size] of [['s', 1], ['ms', 1e-3], ['µs', 1e-6]]) {
    if (seconds >= size) return `${(seconds / size).toPrecision(3)} ${unit}`;
  }
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

const percent = share => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;

const tip = h('div', { class: 'tip', hidden: true, role: 'status' });
document.body.append(tip);

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const y = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

function hideTip() { tip.hidden = true; }

function bar(share) {
  const fill = h('i');
  fill.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return h('div', { class: 'bar', 'aria-hidden': 'true' }, fill);
}

const shareCell = share => h('span', { class: 'share' }, bar(share), percent(share));

function box(title, content, ...extra) {
  return h('section', { class: 'box' }, h('header', {}, h('h3', {}, title), h('span', { class: 'grow' }), extra), h('div', { class: 'inside' }, content));
}

function link(text, action) {
  return h('button', { class: 'link', type: 'button', onclick: action }, text);
}
