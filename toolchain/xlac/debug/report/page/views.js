// The overview, and the panels by name.
function card(label, value, note) {
  return h('div', { class: 'card' }, h('div', { class: 'label' }, label), h('div', { class: 'value' }, value), h('div', { class: 'note' }, note));
}

function overviewPanel() {
  const model = doc.model;
  const drawnNodes = nodes.name.filter((_, n) => isDrawn(n)).length;
  const wrong = doc.errors && doc.errors.values.filter(value => value.verdict !== 'right').length;
  const cards = h('div', { class: 'cards' },
    doc.times && card('A call takes', time(doc.times.seconds), `${plural(model.threads, 'thread')} of ${model.target}`), card('Arithmetic', flops(model.flops), doc.times ? rate(model.flops / doc.times.seconds) : 'a call'),
    card('Nodes', count(drawnNodes), `in ${plural(doc.graph.blocks.length - 1, 'block')}`), card('Kernels', count(doc.kernels.length), `${plural(doc.groups.length, 'group')} of nodes`),
    card('Memory', bytes(doc.memory.arena), `and ${bytes(doc.memory.constants)} of constants`), card('Compiled in', time(d3.sum(doc.stages, stage => stage.seconds)), `${doc.passes.filter(p => p.changed).length} of ${doc.passes.length} passes changed it`),
    doc.errors && card('Verified', doc.errors.verdict, wrong ? `${wrong} values beyond their bound` : `${plural(doc.errors.values.length, 'value')} within their bounds`));
  const top = doc.times ? kernelRows().slice(0, 10) : [...doc.kernels].sort((a, b) => b.flops - a.flops).slice(0, 10);
  const whole = doc.times ? doc.times.seconds : d3.sum(doc.kernels, k => k.flops * k.launches) || 1;
  const amount = row => doc.times ? row.seconds : row.flops * row.launches;
  const kernels = box(doc.times ? 'Where the time goes' : 'Where the arithmetic is', table([
    { head: 'Kernel', show: row => kernelLink(row.kernel || row.name), value: row => row.kernel || row.name }, { head: 'Computes', show: row => shortened(row.computes.join(', '), 60), value: row => row.computes.join() },
    { head: 'Share', show: row => shareCell(amount(row) / whole), value: amount, number: true },
  ], top));
  const stages = box('Where compiling spent its time', table([
    { head: 'Stage', show: stage => stage.name }, { head: 'Time', show: stage => time(stage.seconds), value: stage => stage.seconds, number: true }], [...doc.stages].sort((a, b) => b.seconds - a.seconds).slice(0, 8)));
  const inputs = box('Inputs and outputs', table([{ head: '', show: row => row[0] }, { head: 'Name', show: row => link(row[1], () => reveal(itemOf(row[2]))), value: row => row[1] }, { head: 'Type', show: row => h('code', {}, typeOf(row[2])), value: row => typeOf(row[2]) }],
    [...doc.graph.inputs.map(n => ['input', nameOf(n), n]), ...Object.entries(doc.graph.outputs).map(([name, n]) => ['output', name, n])]));
  return [h('h2', {}, model.name), h('p', { class: 'lead' }, `Compiled for ${model.target} by xlac ${model.version}, precision ${model.precision}, on ${model.machine}.`), cards, h('div', { class: 'two' }, kernels, h('div', {}, inputs, stages))];
}

const panels = {
  overview: { title: 'Overview', make: overviewPanel },
  graph: { title: 'Graph', make: graphPanel, flush: true, many: () => nodes.name.filter((_, n) => isDrawn(n)).length },
  fusion: { title: 'Fusion', make: fusionPanel, many: () => doc.groups.length },
  passes: { title: 'Passes', make: passesPanel, many: () => doc.passes.length },
  memory: { title: 'Memory', make: memoryPanel, many: () => doc.memory.buffers.length },
  kernels: { title: 'Kernels', make: kernelsPanel, flush: true, many: () => doc.kernels.length },
  roofline: { title: 'Roofline', make: roofPanel },
  time: { title: 'Time', make: timePanel },
  errors: { title: 'Errors', make: errorsPanel, many: () => doc.errors ? doc.errors.values.length : '' },
  compiling: { title: 'Compiling', make: compilePanel, many: () => doc.stages.length },
};

function showPanel(name) {
  if (!Object.hasOwn(panels, name)) return;
  for (const [other, panel] of Object.entries(panels)) {
    panel.tab.setAttribute('aria-selected', String(other === name));
    panel.tab.setAttribute('tabindex', other === name ? '0' : '-1');
    panel.element.hidden = other !== name;
  }
  const panel = panels[name];
  if (!panel.made) {
    panel.made = true;
    panel.element.append(...[panel.make()].flat(Infinity));
    redrawAll();
    if (name === 'graph') { openAtFirst(); details(null); view.ready = refresh().then(() => { if (!view.picked) fit(); }); }
  } else redrawAll();
  if (location.hash.slice(1) !== name) history.replaceState(null, '', `#${name}`);
  hideTip();
}

const redrawAll = () => { for (const redraw of redraws) redraw(); };
