/* How surely each source was found over the last half minute. */
"use strict";

(function (own) {
  var KEPT_S = 30, GAP = 6;

  own.Curves = class {
    constructor(canvas, colours, least) {
      this.canvas = canvas;
      this.colours = colours;
      this.least = least;
      this.points = []; // {time, confidences, soundings}
    }

    add(time, sources) {
      this.points.push({ time: time, sources: sources });
      while (this.points.length && this.points[0].time < time - KEPT_S - 1) this.points.shift();
    }

    clear() {
      this.points = [];
      this.draw(0);
    }

    draw(now) {
      var scale = Math.min(2, window.devicePixelRatio || 1), wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
      if (!wide) return;
      if (this.canvas.width !== Math.round(wide * scale) || this.canvas.height !== Math.round(high * scale)) {
        this.canvas.width = Math.round(wide * scale);
        this.canvas.height = Math.round(high * scale);
      }
      var context = this.canvas.getContext("2d"), style = getComputedStyle(this.canvas);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, wide, high);
      var count = this.colours.length, lane = (high - GAP * (count - 1)) / count;
      for (var k = 0; k < count; k++) this.lane(context, k, k * (lane + GAP), lane, wide, now, style);
    }

    lane(context, source, top, height, wide, now, style) {
      function x(time) { return wide * (1 - (now - time) / KEPT_S); }
      context.fillStyle = style.getPropertyValue("--rail");
      context.fillRect(0, top, wide, height);
      var points = this.points, colour = this.colours[source];
      for (var i = 1; i < points.length; i++) {
        var a = points[i - 1], b = points[i];
        if (b.time - a.time > 3) continue; // a pause
        context.globalAlpha = b.sources[source].sounding ? 0.85 : 0.3;
        context.fillStyle = colour;
        context.beginPath();
        context.moveTo(x(a.time), top + height);
        context.lineTo(x(a.time), top + height * (1 - a.sources[source].confidence));
        context.lineTo(x(b.time) + 0.5, top + height * (1 - b.sources[source].confidence));
        context.lineTo(x(b.time) + 0.5, top + height);
        context.fill();
      }
      context.globalAlpha = 0.5;
      context.strokeStyle = style.getPropertyValue("--soft");
      context.setLineDash([2, 4]);
      context.beginPath();
      context.moveTo(0, top + height * (1 - this.least));
      context.lineTo(wide, top + height * (1 - this.least));
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    }
  };
})(window.soundwhere);
