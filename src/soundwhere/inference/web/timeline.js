/* The timeline: the sound's outline, and for each source how surely it is found and when it sounds. */
"use strict";
window.soundwhere = window.soundwhere || {};

(function (own) {
  var WAVE = 52, LANE = 34, GAP = 8, AXIS = 20;

  /** A time as people write it; with tenths where they matter. */
  own.clock = function (seconds, tenths) {
    var total = Math.max(0, tenths ? Math.round(seconds * 10) / 10 : Math.floor(seconds));
    var minutes = Math.floor(total / 60), rest = total - 60 * minutes;
    var hours = Math.floor(minutes / 60);
    var tail = (rest < 10 ? "0" : "") + (tenths ? rest.toFixed(1) : String(rest));
    return hours ? hours + ":" + String(minutes % 60).padStart(2, "0") + ":" + tail : minutes + ":" + tail;
  };

  /** Distance between marks on the axis: a round number of seconds, about `least` pixels wide. */
  function step(length, width, least) {
    var wanted = (length * least) / width;
    var round = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    return round.find(function (value) { return value >= wanted; }) || 7200;
  }

  own.Timeline = class {
    /** Draws into `root`; calls `seek(time)` while somebody drags, `hold(true / false)` around it. */
    constructor(root, data, heat, layers, actions) {
      this.data = data;
      this.heat = heat;
      this.layers = layers;
      this.actions = actions;
      this.wave = own.bytes(data.waveform);
      this.time = data.start_s;
      this.length = Math.max(1e-3, data.end_s - data.start_s);
      var make = own.element;
      var names = data.sources.map(function (source) {
        return make("div", { class: "lane-name", style: { "--colour": "var(--source-" + source.number + ")" } }, ["Source " + source.number]);
      });
      this.names = names;
      this.canvas = make("canvas", { "aria-hidden": "true" });
      this.bubble = make("div", { class: "bubble", hidden: true });
      this.ghost = make("div", { class: "ghost", hidden: true });
      this.track = make("div", {
        class: "track", tabindex: "0", role: "slider", "aria-label": "Time",
        "aria-valuemin": data.start_s, "aria-valuemax": data.end_s,
      }, [this.canvas, this.ghost, this.bubble]);
      root.append(make("div", { class: "lane-names", "aria-hidden": "true" }, [make("div", { class: "lane-name sound" }, ["Sound"])].concat(names)), this.track);
      this.height = WAVE + data.sources.length * (LANE + GAP) + AXIS;
      this.track.style.height = this.height + "px";
      this.listen();
    }

    /** Call a source something. */
    name(source, words) {
      this.names[source].textContent = words;
    }

    listen() {
      var self = this, track = this.track, dragging = false;
      function at(event) {
        var box = track.getBoundingClientRect();
        var share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        return self.data.start_s + share * self.length;
      }
      track.addEventListener("pointerdown", function (event) {
        if (event.button) return;
        dragging = true;
        track.setPointerCapture(event.pointerId);
        self.actions.hold(true);
        self.actions.seek(at(event));
      });
      track.addEventListener("pointermove", function (event) {
        self.point(at(event));
        if (dragging) self.actions.seek(at(event));
      });
      ["pointerup", "pointercancel"].forEach(function (name) {
        track.addEventListener(name, function () {
          if (dragging) self.actions.hold(false);
          dragging = false;
          self.bubble.hidden = self.ghost.hidden = true;
        });
      });
      track.addEventListener("pointerleave", function () { self.bubble.hidden = self.ghost.hidden = true; });
    }

    /** Show which time is pointed at. */
    point(time) {
      var x = this.x(time);
      this.bubble.hidden = this.ghost.hidden = false;
      this.bubble.textContent = own.clock(time, true);
      this.bubble.style.left = Math.min(this.width - 26, Math.max(26, x)) + "px";
      this.ghost.style.left = x + "px";
    }

    x(time) {
      return ((time - this.data.start_s) / this.length) * this.width;
    }

    resize() {
      var scale = Math.min(2, window.devicePixelRatio || 1);
      this.width = this.track.clientWidth;
      this.canvas.width = Math.max(1, Math.round(this.width * scale));
      this.canvas.height = Math.round(this.height * scale);
      this.context = this.canvas.getContext("2d");
      this.context.setTransform(scale, 0, 0, scale, 0, 0);
      var style = getComputedStyle(this.track);
      this.ink = {};
      ["ink", "soft", "faint", "rail"].forEach(function (name) { this.ink[name] = style.getPropertyValue("--" + name).trim(); }, this);
      this.draw(this.time);
    }

    draw(time) {
      this.time = time;
      this.track.setAttribute("aria-valuenow", time.toFixed(2));
      this.track.setAttribute("aria-valuetext", own.clock(time, true) + " of " + own.clock(this.data.end_s, true));
      if (!this.context || !this.width) return;
      this.context.clearRect(0, 0, this.width, this.height);
      this.drawWave();
      this.data.sources.forEach(this.drawLane, this);
      this.drawAxis();
      var x = Math.min(this.width - 1, Math.max(1, this.x(time))), context = this.context;
      context.fillStyle = this.ink.ink;
      context.fillRect(x - 0.75, 0, 1.5, this.height - AXIS);
      context.beginPath();
      context.arc(x, 4, 4, 0, 7);
      context.fill();
    }

    drawWave() {
      var context = this.context, bars = Math.max(1, Math.floor(this.width / 3)), now = this.x(this.time);
      for (var bar = 0; bar < bars; bar++) {
        var first = Math.floor((bar / bars) * this.wave.length), last = Math.max(first + 1, Math.floor(((bar + 1) / bars) * this.wave.length));
        var peak = 0;
        for (var i = first; i < last; i++) peak = Math.max(peak, this.wave[i]);
        var height = Math.max(2, (peak / 255) * (WAVE - 12)), x = (bar / bars) * this.width;
        context.fillStyle = x <= now ? this.ink.soft : this.ink.faint;
        context.fillRect(x, (WAVE - height) / 2, 2, height);
      }
    }

    drawLane(source, number) {
      var context = this.context, top = WAVE + GAP + number * (LANE + GAP) - GAP / 2, layer = this.layers[number];
      context.globalAlpha = 1;
      context.fillStyle = this.ink.rail;
      context.beginPath();
      context.roundRect(0, top, this.width, LANE, 6);
      context.fill();
      context.save();
      context.beginPath();
      context.roundRect(0, top, this.width, LANE, 6);
      context.clip();
      var off = layer.on ? 1 : 0.35;
      context.fillStyle = layer.colour;
      context.globalAlpha = 0.3 * off;
      this.curve(number, top, 0, this.width);
      source.spans_s.forEach(function (span) {
        var left = this.x(span[0]), right = Math.max(left + 2, this.x(span[1]));
        context.globalAlpha = 0.55 * off;
        this.curve(number, top, left, right);
        context.globalAlpha = off;
        context.beginPath();
        context.roundRect(left, top + LANE - 5, right - left, 4, 2);
        context.fill();
      }, this);
      context.restore();
      context.globalAlpha = 0.5;
      context.strokeStyle = this.ink.soft;
      context.setLineDash([2, 4]);
      context.lineWidth = 1;
      var y = Math.round(top + LANE * (1 - this.data.least_confidence)) + 0.5;
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(this.width, y);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
    }

    /** Fill below a source's confidence, between two places. */
    curve(source, top, left, right) {
      var context = this.context;
      context.beginPath();
      context.moveTo(left, top + LANE);
      for (var x = left; ; x = Math.min(right, x + 2)) {
        var value = this.heat.confidence(source, this.data.start_s + (x / this.width) * this.length);
        context.lineTo(x, top + LANE * (1 - value));
        if (x >= right) break;
      }
      context.lineTo(right, top + LANE);
      context.fill();
    }

    drawAxis() {
      var context = this.context, every = step(this.length, this.width, 84), fine = every < 1;
      var first = Math.ceil(this.data.start_s / every - 1e-6) * every;
      context.fillStyle = this.ink.soft;
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "bottom";
      for (var time = first; time <= this.data.end_s + 1e-6; time += every) {
        var x = this.x(time), text = own.clock(time + 1e-6, fine), width = context.measureText(text).width;
        context.fillText(text, Math.min(this.width - width, Math.max(0, x - width / 2)), this.height - 2);
      }
    }
  };
})(window.soundwhere);
