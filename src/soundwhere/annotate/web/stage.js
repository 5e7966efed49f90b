// The large picture: drawing, zooming, panning, and what pointers do on it.

import { BoxTool } from "./boxes.js";
import { PolygonTool } from "./polygon.js";

const MOVED = 5;

export class Stage {
  constructor(canvas, actions) {
    this.canvas = canvas; this.context = canvas.getContext("2d"); this.actions = actions;
    this.image = null; this.size = [1, 1]; this.tool = "add"; this.brush = 8; this.opacity = 0.55;
    this.layers = []; this.draft = null; this.points = []; this.boxes = []; this.box = 0; this.stroke = null;
    this.scale = 1; this.x = 0; this.y = 0; this.pointers = new Map(); this.cursor = null;
    this.tools = { box: new BoxTool(this, actions.boxes), polygon: new PolygonTool(this, actions.polygon) };
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => { this.pointers.delete(event.pointerId); this.stroke = null; this.special?.cancel(); this.draw(); });
    canvas.addEventListener("pointerleave", () => { this.cursor = null; this.draw(); });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY); }, { passive: false });
    new ResizeObserver(() => this.fit()).observe(canvas);
  }
  /** The tool with ways of its own, if such a one is chosen. */
  get special() { return this.tools[this.tool]; }
  show(image, size) { this.tools.box.cancel(); this.tools.polygon.clear(); this.image = image; this.size = size; this.fit(); }
  fit() {
    const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = width * ratio; this.canvas.height = height * ratio;
    const [rows, columns] = this.size;
    this.scale = Math.min(width / columns, (height - 56) / rows); this.x = (width - columns * this.scale) / 2; this.y = (height - 50 - rows * this.scale) / 2;
    this.least = this.scale * 0.5;
    this.draw();
  }
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(this.scale * factor, this.least), 40);
    this.x = x - (x - this.x) * scale / this.scale; this.y = y - (y - this.y) * scale / this.scale; this.scale = scale;
    this.draw();
  }
  /** From the canvas to the picture's pixels. */
  at(event) { return [(event.offsetX - this.x) / this.scale, (event.offsetY - this.y) / this.scale]; }
  inside([x, y]) { return x >= 0 && y >= 0 && x <= this.size[1] && y <= this.size[0]; }
  within([x, y]) { return [Math.min(Math.max(x, 0), this.size[1]), Math.min(Math.max(y, 0), this.size[0])].map((v) => Math.round(v * 10) / 10); }
  get paints() { return this.tool === "brush" || this.tool === "eraser"; }

  down(event) {
    this.canvas.focus({ preventScroll: true });
    try { this.canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, startX: event.offsetX, startY: event.offsetY, button: event.button, far: false });
    if (this.pointers.size === 2) { this.stroke = null; this.special?.cancel(); for (const pointer of this.pointers.values()) pointer.far = true; }
    else if (this.paints && event.button === 0 && this.image) this.stroke = { points: [this.within(this.at(event))], radius: this.brush, add: this.tool === "brush" };
    else if (this.special && this.image) this.special.down(this.at(event), event);
    this.draw();
  }
  move(event) {
    this.cursor = [event.offsetX, event.offsetY];
    const pointer = this.pointers.get(event.pointerId);
    this.tools.polygon.cursor = this.within(this.at(event));
    if (!pointer) { if (this.paints || this.special) this.draw(); return; }
    const before = { ...pointer };
    pointer.x = event.offsetX; pointer.y = event.offsetY;
    if (Math.hypot(pointer.x - pointer.startX, pointer.y - pointer.startY) > MOVED) pointer.far = true;
    if (this.pointers.size === 2) {
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const factor = Math.hypot(pointer.x - other.x, pointer.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      this.x += (pointer.x - before.x) / 2; this.y += (pointer.y - before.y) / 2;
      this.zoom(factor, (pointer.x + other.x) / 2, (pointer.y + other.y) / 2);
    } else if (this.stroke) { this.stroke.points.push(this.within(this.at(event))); this.draw(); }
    else if (this.special?.dragging) { if (pointer.far) this.special.drag(this.at(event)); this.draw(); }
    else if (pointer.far) { this.x += pointer.x - before.x; this.y += pointer.y - before.y; this.draw(); }
  }
  up(event) {
    const pointer = this.pointers.get(event.pointerId), place = this.at(event);
    this.pointers.delete(event.pointerId);
    if (!pointer) return;
    if (this.stroke) { const stroke = this.stroke; this.stroke = null; this.actions.paint(stroke); }
    else if (this.special?.dragging) this.special.drop();
    else if (this.special) { if (!pointer.far && pointer.button !== 1 && this.image && this.inside(place)) this.special.click(place, pointer.button); }
    else if (!pointer.far && pointer.button !== 1 && this.inside(place) && !this.paints) {
      const exclude = pointer.button === 2 || this.tool === "exclude" || event.ctrlKey;
      this.actions.point([...this.within(place), exclude ? 0 : 1]);
    }
    this.draw();
  }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }
  paint() {
    const ratio = window.devicePixelRatio || 1, context = this.context, [rows, columns] = this.size;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.image) return;
    context.setTransform(ratio * this.scale, 0, 0, ratio * this.scale, ratio * this.x, ratio * this.y);
    context.imageSmoothingEnabled = this.scale < 4;
    context.drawImage(this.image, 0, 0, columns, rows);
    context.globalAlpha = this.opacity;
    for (const layer of this.layers) context.drawImage(layer, 0, 0);
    if (this.draft) context.drawImage(this.draft, 0, 0);
    if (this.stroke) this.line(this.stroke);
    context.globalAlpha = 1;
    this.tools.box.shown.forEach(([left, top, right, bottom], index) => {
      context.setLineDash(index === this.box ? [] : [6 / this.scale, 4 / this.scale]);
      context.lineWidth = 4 / this.scale; context.strokeStyle = "rgb(0 0 0 / .5)"; context.strokeRect(left, top, right - left, bottom - top);
      context.lineWidth = 2 / this.scale; context.strokeStyle = "#fff"; context.strokeRect(left, top, right - left, bottom - top);
    });
    context.setLineDash([]);
    this.special?.paint(context);
    for (const [x, y, label] of this.points) {
      context.beginPath(); context.arc(x, y, 6 / this.scale, 0, 7);
      context.fillStyle = label ? "#25c06d" : "#e5484d"; context.fill();
      context.lineWidth = 2 / this.scale; context.strokeStyle = "#fff"; context.stroke();
      context.beginPath(); const r = 3.2 / this.scale;
      context.moveTo(x - r, y); context.lineTo(x + r, y); if (label) { context.moveTo(x, y - r); context.lineTo(x, y + r); }
      context.stroke();
    }
    if (this.paints && this.cursor) {
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.beginPath(); context.arc(...this.cursor, this.brush * this.scale, 0, 7); context.lineWidth = 1.5; context.strokeStyle = "#fff"; context.stroke();
    }
  }
  line({ points, radius, add }) {
    const context = this.context;
    context.strokeStyle = add ? "rgb(255 122 26)" : "rgb(20 20 20)"; context.lineWidth = 2 * radius; context.lineCap = context.lineJoin = "round";
    context.beginPath(); context.moveTo(...points[0]); points.forEach((point) => context.lineTo(...point)); context.lineTo(points[0][0] + 0.01, points[0][1]);
    if (points.length > 1) { context.beginPath(); context.moveTo(...points[0]); points.slice(1).forEach((point) => context.lineTo(...point)); }
    context.stroke();
  }
}
