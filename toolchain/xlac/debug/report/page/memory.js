// The arena over the steps of a call: every buffer as a rectangle of bytes and steps.
function memoryPanel() {
  const memory = doc.memory;
  const cards = h('div', { class: 'cards' }, card('Arena', bytes(memory.arena), 'one block for all that is temporary'), card('Alive at once', bytes(memory.live), memory.arena ? `${percent(memory.live / memory.arena)} of the arena` : ''),
    card('Constants', bytes(memory.constants), 'weights and folded values'), card('State', bytes(memory.state), 'kept between calls'));
  const content = memory.buffers.length ? memoryPicture(memory) : h('p', { class: 'empty' }, 'No step leaves anything in the arena: every value passes from kernel to kernel by inputs and outputs.');
  const [rows, filter] = table([
    { head: 'Buffer', show: b => b.symbol }, { head: 'Of', show: b => b.name }, { head: 'Type', show: b => h('code', {}, b.type), value: b => b.type },
    { head: 'Bytes', value: b => b.bytes, show: b => bytes(b.bytes), number: true }, { head: 'Offset', value: b => b.offset, show: b => b.offset === undefined ? '' : count(b.offset), number: true },
    { head: 'From step', value: b => b.first, show: b => b.first === undefined ? b.role : `${b.first} ${memory.steps[b.first]}` }, { head: 'To step', value: b => b.last, show: b => b.last === undefined ? '' : `${b.last} ${memory.steps[b.last]}` },
  ], [...memory.buffers, ...memory.others], { filter: true });
  return [h('h2', {}, 'Memory'), h('p', { class: 'lead' }, 'Across: the steps of a call. Upwards: bytes of the arena. A rectangle is a buffer from its first to its last use; the line is what is alive.'), cards, box('The arena', content), box('Every buffer', rows, filter)];
}

function memoryPicture(memory) {
  const canvas = h('canvas', { role: 'img', 'aria-label': `${memory.buffers.length} buffers over ${memory.steps.length - 1} steps; the table below has each`, tabindex: '0' });
  const holder = h('div', { class: 'plot' }, canvas);
  const margin = { left: 84, right: 16, top: 10, bottom: 34 };
  const byTime = [...memory.buffers];
  const colour = name => PALETTE[Math.abs([...name].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) | 0, 7)) % 8];
  let x, y, width, height;
  function draw(lit) {
    width = Math.max(320, holder.clientWidth || 900);
    height = 380;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const pen = canvas.getContext('2d');
    pen.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    x = d3.scaleLinear([1, memory.steps.length], [margin.left, width - margin.right]);
    y = d3.scaleLinear([0, memory.arena], [height - margin.bottom, margin.top]);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, sans-serif';
    pen.fillStyle = style.getPropertyValue('--soft');
    pen.strokeStyle = style.getPropertyValue('--line');
    pen.textAlign = 'right';
    const step = 2 ** Math.ceil(Math.log2(memory.arena / 6 || 1));
    for (const tick of d3.range(0, memory.arena + 1, step)) { pen.fillText(bytes(tick), margin.left - 8, y(tick) + 4); line(pen, margin.left, y(tick), width - margin.right, y(tick)); }
    pen.textAlign = 'center';
    for (const tick of x.ticks(10).filter(tick => Number.isInteger(tick) && tick < memory.steps.length)) pen.fillText(`step ${tick}`, x(tick + 0.5), height - 12);
    for (const buffer of byTime) {
      const left = x(buffer.first), top = y(buffer.offset + buffer.bytes);
      const w = Math.max(1, x(buffer.last + 1) - left), tall = Math.max(1, y(buffer.offset) - top);
      pen.globalAlpha = buffer === lit ? 1 : 0.72;
      pen.fillStyle = colour(buffer.name || buffer.symbol);
      pen.fillRect(left, top, w, tall);
      pen.globalAlpha = 1;
      if (w > 3 && tall > 3) { pen.strokeStyle = style.getPropertyValue(buffer === lit ? '--text' : '--card'); pen.strokeRect(left + 0.5, top + 0.5, w - 1, tall - 1); }
      if (w > 46 && tall > 15) { pen.fillStyle = '#fff'; pen.textAlign = 'left'; pen.fillText(fitted(pen, buffer.name || buffer.symbol, w - 10), left + 5, top + tall / 2 + 4); }
    }
    pen.strokeStyle = style.getPropertyValue('--text');
    pen.lineWidth = 1.6;
    pen.beginPath();
    memory.alive.forEach((alive, step) => { if (step) { pen.lineTo(x(step), y(alive)); pen.lineTo(x(step + 1), y(alive)); } });
    pen.stroke();
  }
  let lit = null;
  canvas.addEventListener('mousemove', event => {
    const at = canvas.getBoundingClientRect();
    const step = x.invert(event.clientX - at.left), place = y.invert(event.clientY - at.top);
    const found = byTime.find(b => b.first <= step && step < b.last + 1 && b.offset <= place && place < b.offset + b.bytes) || null;
    if (found !== lit) { lit = found; draw(lit); }
    if (lit) showTip(event, said(lit)); else hideTip();
  });
  canvas.addEventListener('mouseleave', () => { lit = null; hideTip(); draw(null); });
  canvas.addEventListener('keydown', event => {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    lit = byTime[(byTime.indexOf(lit) + move + byTime.length) % byTime.length];
    draw(lit);
    const at = canvas.getBoundingClientRect();
    showTip({ clientX: at.left + x(lit.first), clientY: at.top + y(lit.offset + lit.bytes) }, said(lit));
  });
  canvas.addEventListener('blur', () => { lit = null; hideTip(); draw(null); });
  const said = b => `${b.name || b.symbol}\n${b.type}, ${bytes(b.bytes)} at ${count(b.offset)}\nsteps ${b.first} (${memory.steps[b.first]}) to ${b.last} (${memory.steps[b.last]})`;
  redraws.push(() => draw(lit));
  return holder;
}

function line(pen, x1, y1, x2, y2) { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); }

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  while (text.length > 1 && pen.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
}
