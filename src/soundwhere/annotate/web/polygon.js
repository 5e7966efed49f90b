// The tool for polygons: every click is a corner; the first corner again, a double click or Enter closes it.

const REACH = 10;  // pixels on the screen

export class PolygonTool {
  constructor(stage, { finish, say }) { Object.assign(this, { stage, finish, say, corners: [], add: true, cursor: null, dragging: null }); }
  cancel() {}
  down() {}
  drop() {}
  get open() { return this.corners.length > 0; }
  clear() { this.corners = []; this.cursor = null; }
  back() { this.corners.pop(); }

  click(place, button) {
    const corner = this.stage.within(place), [first] = this.corners, last = this.corners[this.corners.length - 1];
    if (!this.open) this.add = button !== 2;
    if (this.corners.length > 2 && (this.near(first, corner) || this.near(last, corner))) { this.close(); return; }
    if (last && this.near(last, corner, 2)) return;  // the second half of a hasty double click
    this.corners.push(corner);
  }
  near([ax, ay], [bx, by], reach = REACH) { return Math.hypot(ax - bx, ay - by) * this.stage.scale <= reach; }
  close() {
    if (this.corners.length < 3) { this.say("a polygon needs three corners"); return; }
    const points = this.corners;
    this.clear();
    this.finish({ points, fill: true, add: this.add });
  }
  paint(context) {
    if (!this.open) return;
    const { scale } = this.stage, line = () => { context.beginPath(); context.moveTo(...this.corners[0]); [...this.corners.slice(1), ...(this.cursor ? [this.cursor] : [])].forEach((corner) => context.lineTo(...corner)); };
    context.fillStyle = this.add ? "rgb(255 122 26 / .35)" : "rgb(20 20 20 / .5)"; line(); context.fill("evenodd");
    context.lineWidth = 4 / scale; context.strokeStyle = "rgb(0 0 0 / .6)"; line(); context.stroke();
    context.lineWidth = 2 / scale; context.strokeStyle = "#fff"; line(); context.stroke();
    this.corners.forEach(([x, y], index) => {
      context.beginPath(); context.arc(x, y, (index ? 4 : 6) / scale, 0, 7);
      context.fillStyle = index ? "#fff" : "#25c06d"; context.fill(); context.lineWidth = 1.5 / scale; context.strokeStyle = "#111"; context.stroke();
    });
  }
}
