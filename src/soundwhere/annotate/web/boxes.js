// The tool for boxes: drag on free ground draws one, a handle resizes, the inside moves.

const REACH = 10, LEAST = 3;  // pixels on the screen; pixels of the picture, as the server has it
const round = (value) => Math.round(value * 10) / 10;

/** The eight handles of a box: which sides each moves (-1 left or top, 1 right or bottom), and where it is. */
export function handles([left, top, right, bottom]) {
  const xs = [left, (left + right) / 2, right], ys = [top, (top + bottom) / 2, bottom];
  return [-1, 0, 1].flatMap((dx) => [-1, 0, 1].map((dy) => ({ dx, dy, x: xs[dx + 1], y: ys[dy + 1] }))).filter(({ dx, dy }) => dx || dy);
}

export class BoxTool {
  constructor(stage, { change, select }) { Object.assign(this, { stage, change, select, dragging: null }); }
  cancel() { this.dragging = null; }
  click() {}

  /** What a place would take hold of: a handle, first of the chosen box, or the smallest box around it. */
  find([x, y]) {
    const { boxes, box, scale } = this.stage, reach = REACH / scale;
    const order = boxes.map((_, index) => index).sort((a, b) => (b === box) - (a === box));
    for (const index of order) {
      const near = handles(boxes[index]).find((one) => Math.abs(one.x - x) <= reach && Math.abs(one.y - y) <= reach);
      if (near) return { index, dx: near.dx, dy: near.dy };
    }
    const area = ([left, top, right, bottom]) => (right - left) * (bottom - top);
    const around = order.filter((index) => { const [left, top, right, bottom] = boxes[index]; return x >= left && x <= right && y >= top && y <= bottom; });
    around.sort((a, b) => area(boxes[a]) - area(boxes[b]));
    return around.length ? { index: around[0], dx: 0, dy: 0 } : null;
  }
  down(place, event) {
    if (event.button) return;
    const hit = event.shiftKey ? null : this.find(place);
    this.dragging = { hit, from: this.stage.within(place), before: hit ? this.stage.boxes[hit.index] : null, box: null };
  }
  drag(place) {
    const { hit, from, before } = this.dragging, [height, width] = this.stage.size, [x, y] = this.stage.within(place);
    if (!hit) { this.dragging.box = [Math.min(from[0], x), Math.min(from[1], y), Math.max(from[0], x), Math.max(from[1], y)]; return; }
    let [left, top, right, bottom] = before;
    let mx = x - from[0], my = y - from[1];
    if (!hit.dx && !hit.dy) {
      mx = Math.min(Math.max(mx, -left), width - right); my = Math.min(Math.max(my, -top), height - bottom);
      [left, top, right, bottom] = [left + mx, top + my, right + mx, bottom + my];
    }
    if (hit.dx < 0) left += mx; if (hit.dx > 0) right += mx;
    if (hit.dy < 0) top += my; if (hit.dy > 0) bottom += my;
    const clip = (value, most) => round(Math.min(Math.max(value, 0), most));
    this.dragging.box = [clip(Math.min(left, right), width), clip(Math.min(top, bottom), height), clip(Math.max(left, right), width), clip(Math.max(top, bottom), height)];
  }
  drop() {
    const { hit, box, before } = this.dragging, boxes = [...this.stage.boxes];
    this.dragging = null;
    if (!box) { if (hit) this.select(hit.index); return; }
    if (box[2] - box[0] < LEAST || box[3] - box[1] < LEAST || before && box.every((value, side) => value === before[side])) return;
    const index = hit ? hit.index : boxes.length;
    boxes[index] = box;
    this.change(boxes, index);
  }
  /** The boxes as they look while one is being dragged. */
  get shown() {
    const boxes = [...this.stage.boxes];
    if (this.dragging && this.dragging.box) boxes[this.dragging.hit ? this.dragging.hit.index : boxes.length] = this.dragging.box;
    return boxes;
  }
  paint(context) {
    const chosen = this.shown[this.stage.box], half = 4 / this.stage.scale;
    if (!chosen) return;
    context.fillStyle = "#fff"; context.strokeStyle = "#111"; context.lineWidth = 1.5 / this.stage.scale;
    for (const { x, y } of handles(chosen)) { context.beginPath(); context.rect(x - half, y - half, 2 * half, 2 * half); context.fill(); context.stroke(); }
  }
}
