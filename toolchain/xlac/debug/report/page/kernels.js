// Kernels: lines of the model, source and assembly side by side.
const kernelView = { name: null, form: 'source', pane: null, list: null };
const WORDS = /(;.*$|\/\/.*$|#.*$)|("(?:[^"\\]|\\.)*")|([@%][\w.$]+)|\b(define|ret|br|load|store|call|phi|fmul|fadd|getelementptr|for|if|else|while|return|void|float|double|int|const|static|kernel|loop|let|parallel|def|import|in)\b/g;

function codeLines(lines, first = 1, chosen = new Set()) {
  const most = 6000;
  const rows = lines.slice(0, most).map((text, at) => h('span', { class: `row${chosen.has(first + at) ? ' on' : ''}` }, h('b', {}, first + at), lines.length < 3000 ? coloured(text) : text, '\n'));
  if (lines.length > most) rows.push(h('span', { class: 'row' }, h('b'), `… ${count(lines.length - most)} more lines`));
  return h('pre', {}, rows);
}

function coloured(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(WORDS)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    parts.push(h('span', { class: match[1] ? 'note' : match[4] ? 'word' : 'name' }, match[0]));
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

function kernelsPanel() {
  kernelView.list = h('nav', { class: 'list', 'aria-label': 'Kernels' });
  kernelView.pane = h('div', { class: 'kernel' });
  const order = [...doc.kernels].sort((a, b) => (look.seconds.get(b.name) || 0) - (look.seconds.get(a.name) || 0));
  for (const kernel of order) {
    const seconds = look.seconds.get(kernel.name);
    kernelView.list.append(h('button', { type: 'button', 'data-kernel': kernel.name, onclick: () => openKernel(kernel.name) },
      h('span', { class: 'title' }, kernel.name), h('span', { class: 'under' }, h('span', {}, seconds ? time(seconds) : flops(kernel.flops)), h('span', {}, seconds ? percent(seconds / doc.times.seconds) : plural(kernel.launches, 'launch', 'launches')))));
  }
  kernelView.list.addEventListener('keydown', event => {
    const move = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
    const next = move && document.activeElement[move];
    if (next) { event.preventDefault(); next.focus(); next.click(); }
  });
  if (order.length) openKernel(order[0].name); else kernelView.pane.append(h('p', { class: 'empty' }, 'This program has no kernels.'));
  return h('div', { class: 'kernels' }, kernelView.list, kernelView.pane);
}

function openKernel(name) {
  kernelView.name = name;
  for (const button of kernelView.list.children) button.setAttribute('aria-current', String(button.dataset.kernel === name));
  const kernel = doc.kernels[look.kernels.get(name)];
  const seconds = look.seconds.get(name);
  const forms = { source: 'source', text: 'kernel' };
  const choose = form => h('button', { class: 'button', type: 'button', 'aria-pressed': String(kernelView.form === form), onclick: () => { kernelView.form = form; openKernel(name); } }, forms[form]);
  kernelView.pane.replaceChildren(
    h('div', {}, h('h2', { class: 'mono' }, name)),
    h('div', { class: 'facts' }, h('span', { class: 'chip' }, plural(kernel.launches, 'launch', 'launches'), ' a call'), h('span', { class: 'chip' }, flops(kernel.flops)), h('span', { class: 'chip' }, `${bytes(kernel.bytes)} moved`),
      seconds !== undefined && h('span', { class: 'chip' }, `${time(seconds)}, ${percent(seconds / doc.times.seconds)} of a call`), kernel.computes.slice(0, 12).map(path => h('span', { class: 'chip' }, link(path, () => revealPath(path))))),
    h('div', { class: 'panes' },
      h('div', { class: 'pane' }, h('h3', {}, 'Lines of the model'), specPane(kernel)),
      h('div', { class: 'pane' }, h('div', { class: 'facts' }, h('h3', {}, 'Code '), Object.keys(forms).map(choose)), codePane(kernel[kernelView.form], 'The backend’s files have no part of this name.')),
      h('div', { class: 'pane' }, h('h3', {}, 'Assembly'), codePane(kernel.assembly, 'This target shows no assembly.'))));
}

const codePane = (text, otherwise) => text === null ? h('p', { class: 'dim' }, otherwise) : h('div', { class: 'code', tabindex: '0' }, codeLines(text.split('\n')));

// The file, scrolled to the first line that the kernel computes; names of nodes where there are no lines.
function specPane(kernel) {
  const shown = d3.groups(kernel.places, place => place[0]).filter(([file]) => doc.files[file].text !== null);
  if (!shown.length) return h('div', { class: 'code' }, codeLines(kernel.computes));
  const holder = h('div', { class: 'code', tabindex: '0' }, shown.map(([file, list]) => {
    lineText(list[0]);
    const chosen = new Set(list.map(place => place[1]));
    const lines = doc.files[file].lines;
    const near = lines.length < 1500 ? [0, lines.length] : [Math.max(0, d3.min(chosen) - 200), d3.min(chosen) + 800];
    return [shown.length > 1 ? h('div', { class: 'dim' }, doc.files[file].name) : null, codeLines(lines.slice(...near), near[0] + 1, chosen)];
  }));
  requestAnimationFrame(() => { const on = holder.querySelector('.on'); if (on) holder.scrollTop = Math.max(0, on.offsetTop - holder.offsetTop - 60); });
  return holder;
}

function showKernel(name) {
  showPanel('kernels');
  openKernel(name);
  const button = [...kernelView.list.children].find(b => b.dataset.kernel === name);
  if (button) button.scrollIntoView({ block: 'nearest' });
}

function revealPath(path) {
  const node = nodes.name.findIndex((name, n) => name === path && isDrawn(n));
  if (node >= 0) reveal(itemOf(node));
}
