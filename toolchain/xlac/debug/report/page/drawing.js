// Colours of nodes, and the drawing of a layout as SVG.
const PALETTE = ['#4e79a7', '#e8883a', '#3f9b6b', '#d1495b', '#8e6bbf', '#2a9aa8', '#b98b2f', '#d66fa8', '#6c7a89'];
const modes = { operation: null, kernel: null, time: null, error: null };

function prepareColours() {
  const ops = new Map();
  nodes.op.forEach((op, node) => { if (isDrawn(node) && nodes.kind[node] === 'op') ops.set(op, (ops.get(op) || 0) + 1); });
  const frequent = [...ops.entries()].sort((a, b) => b[1] - a[1]).slice(0, 8).map(entry => entry[0]);
  const ofOp = new Map(frequent.map((op, at) => [op, PALETTE[at]]));
  modes.operation = {
    of: item => item[0] === 'n' ? ofOp.get(nodes.op[Number(item.slice(1))]) || PALETTE[8] : null,
    legend: () => [...frequent.map(op => [ofOp.get(op), strings[op]]), [PALETTE[8], 'others, inputs']],
  };
  modes.kernel = {
    of: item => {
      if (item[0] !== 'n') return null;
      if (nodes.kind[Number(item.slice(1))] !== 'op') return PALETTE[8];
      const groups = groupsOf(Number(item.slice(1)));
      return groups.length ? PALETTE[groups[groups.length - 1] % 8] : PALETTE[8];
    },
    legend: () => [['transparent', 'neighbours of one colour share a kernel'], [PALETTE[8], 'no kernel']],
  };
  if (doc.times) modes.time = heat('of the time of a call', item => doc.times.seconds ? secondsOf(pathsOf(item)) / doc.times.seconds : 0, percent);
  if (doc.errors) {
    modes.error = heat('of the promised bound', item => {
      const shares = pathsOf(item).map(errorOf).filter(share => share !== undefined);
      return shares.length ? Math.max(...shares) : undefined;
    }, share => share === Infinity ? 'beyond' : percent(share));
  }
}

function heat(what, share, text) {
  const scale = d3.scaleSequentialSqrt(d3.interpolateYlOrRd).domain([0, what.includes('time') ? 0.25 : 1]).clamp(true);
  return {
    of: item => { const value = share(item); return value === undefined ? PALETTE[8] : scale(Math.min(value, 1)); },
    said: item => { const value = share(item); return value === undefined ? '' : text(value); },
    legend: () => [[scale(0), `0 % ${what}`], [scale(0.06), '6 %'], [scale(1), what.includes('time') ? '25 % and more' : '100 %, or wrong']],
  };
}

function drawn(layout, open, mode, into, at = [0, 0]) {
  const edges = s('g', { class: 'edges' });
  into.append(edges);
  for (const edge of layout.edges) {
    const section = edge.sections && edge.sections[0];
    if (!section) continue;
    const points = [section.startPoint, ...(section.bendPoints || []), section.endPoint];
    const path = d3.line(p => p.x + at[0], p => p.y + at[1])(points);
    edges.append(s('path', { class: 'edge', d: path, 'marker-end': 'url(#head)', 'data-from': edge.sources[0], 'data-to': edge.targets[0] }));
  }
  for (const item of layout.items) {
    const x = item.x + at[0], y = item.y + at[1];
    const inside = layout.inner.get(item.id);
    into.append(box1(item, x, y, inside, mode));
    places.set(item.id, { x, y, width: item.width, height: item.height });
    if (inside) drawn(inside, open, mode, into, [x + PAD, y + HEAD]);
  }
}

function box1(item, x, y, inside, mode) {
  const colour = modes[mode].of(item.id);
  const block = item.id[0] === 'b';
  const said = modes[mode].said ? modes[mode].said(item.id) : '';
  const parts = [
    s('rect', { class: 'body', width: item.width, height: item.height, rx: 8 }),
    block && !inside && s('rect', { class: 'body', x: 4, y: -4, width: item.width, height: item.height, rx: 8 }),
    block && !inside && s('rect', { class: 'body', width: item.width, height: item.height, rx: 8 }),
    colour && s('rect', { x: 6, y: 8, width: 5, height: (inside ? HEAD : item.height) - 16, rx: 2.5, fill: colour }),
    s('text', { class: 'op', x: 18, y: inside ? 21 : 18 }, shortened(titleOf(item.id), 34)),
    inside ? s('text', { class: 'sub', x: item.width - 26, y: 21, 'text-anchor': 'end' }, said)
      : s('text', { class: 'sub', x: 18, y: 33 }, shortened(said || underOf(item.id), 40)),
    block && s('text', { class: 'sign', x: item.width - 16, y: inside ? 21 : 18, 'text-anchor': 'middle' }, inside ? '−' : '+'),
  ];
  const label = `${titleOf(item.id)}, ${underOf(item.id)}${block ? inside ? ', open block' : ', closed block' : ''}`;
  return s('g', {
    class: `node ${block ? 'block' : 'leaf'}${inside ? ' open' : ''}`, transform: `translate(${x},${y})`,
    tabindex: '-1', role: 'button', 'aria-label': label, 'data-item': item.id, 'aria-expanded': block ? String(Boolean(inside)) : null,
  }, parts);
}
