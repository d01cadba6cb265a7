// Roofline, times and stages.
const redraws = [];

function roofPanel() {
  const lead = h('p', { class: 'lead' }, 'How near each kernel is to what this machine can do: by its arithmetic per byte, its rate is bounded by reading memory (the slope) or by arithmetic (the flat roof). Both were measured here, by kernels of xlac’s own, with the same threads. What stays in caches may be above the slope, and convolutions that do with fewer products than are counted above the roof.');
  const unsure = text => h('p', { class: 'lead' }, h('span', { class: 'chip bad' }, 'unsure'), ` ${text}`);
  if (!doc.times || !doc.ceilings) return [h('h2', {}, 'Roofline'), h('p', { class: 'empty' }, doc.times ? 'There are no ceilings for this target.' : 'Nothing was measured: the report was written with --no-run.')];
  const top = doc.ceilings;
  const cards = h('div', { class: 'cards' }, card('Arithmetic at most', rate(top.flops_per_second), `f32; runs lie ${percent(top.spread[0])} apart`), card('Memory at most', flow(top.bytes_per_second), `reading; runs lie ${percent(top.spread[1])} apart`),
    card('The whole call', rate(doc.model.flops / doc.times.seconds), `${percent(doc.model.flops / doc.times.seconds / top.flops_per_second)} of the roof`));
  const holder = h('div', { class: 'plot' });
  redraws.push(() => holder.replaceChildren(roofline(holder.clientWidth || 900, top)));
  const doubts = Math.max(...top.spread) > 0.15 ? unsure('The ceilings varied while they were measured: something else was running. Shares of them say little.') : null;
  return [h('h2', {}, 'Roofline'), lead, cards, doubts || [], box('Kernels', holder)];
}

function kernelRows() {
  const rows = d3.rollups(doc.times.steps, list => ({
    kernel: list[0].kernel, runs: d3.sum(list, r => r.runs), seconds: d3.sum(list, r => r.seconds), flops: d3.sum(list, r => r.flops),
    bytes: d3.sum(list, r => r.bytes), computes: [...new Set(list.flatMap(r => r.computes))], places: [...new Set(list.flatMap(r => r.places.map(placeText)))],
  }), row => row.kernel).map(entry => entry[1]);
  return rows.sort((a, b) => b.seconds - a.seconds);
}

function roofline(width, top) {
  const rows = kernelRows().filter(row => row.flops && row.bytes && row.seconds);
  const height = 460, margin = { left: 74, right: 24, top: 16, bottom: 46 };
  const xs = rows.map(row => row.flops / row.bytes), ys = rows.map(row => row.flops / row.seconds);
  const ridge = top.flops_per_second / top.bytes_per_second;
  const x = d3.scaleLog([Math.min(0.05, d3.min(xs) / 2 || 1), Math.max(ridge * 20, d3.max(xs) * 2 || 1)], [margin.left, width - margin.right]);
  const y = d3.scaleLog([Math.min(top.flops_per_second / 1000, d3.min(ys) / 2 || 1), top.flops_per_second * 2], [height - margin.bottom, margin.top]);
  const svg = s('svg', { width, height, role: 'group', 'aria-label': 'Roofline' });
  const root = d3.select(svg);
  root.append('g').attr('class', 'grid').attr('transform', `translate(0,${height - margin.bottom})`).call(d3.axisBottom(x).ticks(8, '~g').tickSize(-(height - margin.top - margin.bottom)).tickFormat('')).select('.domain').remove();
  root.append('g').attr('transform', `translate(0,${height - margin.bottom})`).call(d3.axisBottom(x).ticks(8, '~g'));
  root.append('g').attr('transform', `translate(${margin.left},0)`).call(d3.axisLeft(y).ticks(7, '~s'));
  root.append('text').attr('x', width - margin.right).attr('y', height - 8).attr('text-anchor', 'end').text('flop per byte moved');
  root.append('text').attr('x', 8).attr('y', 12).text('flop/s');
  const start = x.domain()[0];
  const from = Math.max(start, y.domain()[0] / top.bytes_per_second);
  root.append('path').attr('class', 'roof').attr('d', d3.line()([[x(from), y(from * top.bytes_per_second)], [x(ridge), y(top.flops_per_second)], [x(x.domain()[1]), y(top.flops_per_second)]]));
  const r = d3.scaleSqrt([0, d3.max(rows, row => row.seconds) || 1], [3.5, 22]);
  for (const row of rows) {
    const text = `${row.kernel}: ${time(row.seconds)}, ${percent(row.seconds / doc.times.seconds)} of a call\n${rate(row.flops / row.seconds)}, ${flow(row.bytes / row.seconds)}\n${percent(row.flops / row.seconds / Math.min(top.flops_per_second, row.flops / row.bytes * top.bytes_per_second))} of its ceiling`;
    const tell = event => showTip(event.clientX ? event : centreOf(event.target), text);
    svg.append(s('circle', { class: 'dot', cx: x(row.flops / row.bytes), cy: y(row.flops / row.seconds), r: r(row.seconds), tabindex: '0', role: 'button', 'aria-label': text,
      onmousemove: tell, onfocus: tell, onmouseleave: hideTip, onblur: hideTip, onclick: () => showKernel(row.kernel), onkeydown: event => { if (event.key === 'Enter') showKernel(row.kernel); } }));
  }
  return svg;
}

function centreOf(element) {
  const at = element.getBoundingClientRect();
  return { clientX: at.left + at.width / 2, clientY: at.top + at.height / 2 };
}

function timePanel() {
  if (!doc.times) return [h('h2', {}, 'Time'), h('p', { class: 'empty' }, 'Nothing was measured: the report was written with --no-run.')];
  const whole = doc.times.seconds || 1;
  const [rows, filter] = table([
    { head: 'Share', value: r => r.seconds, show: r => shareCell(r.seconds / whole), number: true }, { head: 'Time', value: r => r.seconds, show: r => time(r.seconds), number: true },
    { head: 'Runs', value: r => r.runs, show: r => count(r.runs), number: true }, { head: 'Arithmetic', value: r => r.flops / r.seconds, show: r => r.flops && r.seconds ? rate(r.flops / r.seconds) : '', number: true },
    { head: 'Traffic', value: r => r.bytes / r.seconds, show: r => r.bytes && r.seconds ? flow(r.bytes / r.seconds) : '', number: true }, { head: 'Kernel', value: r => r.kernel, show: r => kernelLink(r.kernel) },
    { head: 'Computes', value: r => r.computes.join(), show: r => shortened(r.computes.join(', '), 120) }, { head: 'Lines', value: r => r.places.join(), show: r => shortened(r.places.join(', '), 80) },
  ], kernelRows(), { filter: true });
  const lines = table([
    { head: 'Share', value: r => r[1], show: r => shareCell(r[1] / whole), number: true }, { head: 'Time', value: r => r[1], show: r => time(r[1]), number: true },
    { head: 'Lines of the model that share kernels', value: r => r[0], show: r => r[0] },
  ], doc.times.lines);
  return [h('h2', {}, 'Time'), h('p', { class: 'lead' }, `A call takes ${time(doc.times.seconds)} in ${plural(doc.times.steps.length, 'step')}; medians over ${plural(doc.times.calls, 'call')} with a stamp after each step. ${doc.times.notes.join(' ')}`), box('By kernel', rows, filter), box('By line', lines)];
}

function compilePanel() {
  const whole = d3.sum(doc.stages, stage => stage.seconds);
  const rows = doc.stages.flatMap(stage => [{ ...stage, inner: false }, ...stage.inside.map(pass => ({ ...pass, inner: true }))]);
  const made = doc.stages.some(stage => stage.name === 'building the code');
  const note = doc.times && !made ? ' The code was in the cache, so it was not built again.' : doc.times ? '' : ' The code was not built: the report was written with --no-run.';
  return [h('h2', {}, 'Compiling'), h('p', { class: 'lead' }, `${time(whole)} from the model to a program that runs, stage by stage.${note}`),
    box('Stages', table([
      { head: 'Stage', value: r => r.name, show: r => r.inner ? h('span', { class: 'dim' }, `— ${r.name}`) : h('strong', {}, r.name) },
      { head: 'Time', value: r => r.seconds, show: r => time(r.seconds), number: true }, { head: 'Share', value: r => r.seconds, show: r => shareCell(r.seconds / (whole || 1)), number: true },
    ], rows))];
}

function errorsPanel() {
  const found = doc.errors;
  const lead = h('p', { class: 'lead' }, 'How far each value is from what its nodes mean in float64, beside the bound that the documentation promises. Groups are judged for what they read, so an error is counted where it is made.');
  if (!found) return [h('h2', {}, 'Errors'), h('p', { class: 'empty' }, 'Nobody verified this program: xlac report --verify does.')];
  const [rows, filter] = table([
    { head: 'Verdict', value: v => v.verdict, show: v => h('span', { class: `chip ${v.verdict === 'right' ? 'good' : 'bad'}` }, v.verdict) }, { head: 'Value', value: v => v.name, show: v => v.name }, { head: 'Against', show: v => v.against },
    { head: 'ulp', value: v => Number(v.ulp), show: v => digits(v.ulp), number: true }, { head: 'Relative', value: v => Number(v.relative), show: v => digits(v.relative), number: true }, { head: 'Absolute', value: v => Number(v.absolute), show: v => digits(v.absolute), number: true },
    { head: 'Share of its bound', value: v => v.share_of_bound ?? Infinity, show: v => v.share_of_bound === null ? '∞' : shareCell(v.share_of_bound), number: true }, { head: 'Lines', show: v => v.lines },
  ], found.values, { filter: true });
  const notes = [...found.causes.map(cause => h('p', {}, h('span', { class: 'chip bad' }, 'cause'), ' ', cause)), ...found.notes.map(note => h('p', { class: 'dim' }, note))];
  return [h('h2', {}, 'Errors'), lead, h('p', { class: 'lead' }, h('span', { class: `chip ${found.verdict === 'right' ? 'good' : 'bad'}` }, `the verdict: ${found.verdict}`)), notes, box('Values', rows, filter)];
}
