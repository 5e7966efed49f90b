/* The last half minute: pictures as they were shown, and sound; the server makes a video of them when it is asked to. */
"use strict";

(function (own) {
  var KEPT_S = 30, WIDEST = 960, QUALITY = 0.8;

  own.Recorder = class {
    constructor() {
      this.frames = []; // {time, blob}
      this.sounds = []; // {time of the end, samples}
      this.rate = 0;
      this.canvas = document.createElement("canvas");
    }

    forget() {
      this.frames = [];
      this.sounds = [];
    }

    get seconds() {
      return this.frames.length > 1 ? this.frames[this.frames.length - 1].time - this.frames[0].time : 0;
    }

    /** Keep a picture: `draw(context, width, height)` paints it. */
    picture(time, width, height, draw) {
      if (this.busy) return;
      var self = this, scale = Math.min(1, WIDEST / width), canvas = this.canvas;
      var wide = 2 * Math.round(width * scale / 2), high = 2 * Math.round(height * scale / 2);
      if (canvas.width !== wide || canvas.height !== high) {
        canvas.width = wide;
        canvas.height = high;
      }
      draw(canvas.getContext("2d"), wide, high);
      this.busy = true;
      canvas.toBlob(function (blob) {
        self.busy = false;
        if (!blob) return;
        self.frames.push({ time: time, blob: blob });
        while (self.frames[0].time < time - KEPT_S) self.frames.shift();
      }, "image/jpeg", QUALITY);
    }

    sound(time, samples, rate) {
      if (rate !== this.rate) this.sounds = [];
      this.rate = rate;
      this.sounds.push({ time: time, samples: samples });
      while (this.sounds[0].time < time - KEPT_S - 1) this.sounds.shift();
    }

    /** All sound from a time on, as one. */
    soundFrom(start) {
      var rate = this.rate, parts = this.sounds.filter(function (part) { return part.time > start; });
      if (!parts.length) return new Float32Array(0);
      var begin = parts[0].time - parts[0].samples.length / rate; // silence before, or a cut
      var skip = Math.round((start - begin) * rate), length = parts.reduce(function (sum, part) { return sum + part.samples.length; }, 0) - skip;
      var whole = new Float32Array(Math.max(0, length)), place = -skip;
      parts.forEach(function (part) {
        var samples = place < 0 ? part.samples.subarray(Math.min(-place, part.samples.length)) : part.samples;
        if (samples.length) whole.set(samples, Math.max(0, place));
        place += part.samples.length;
      });
      return whole;
    }

    /** The video, as a Blob. */
    async clip() {
      var frames = this.frames.slice(), start = frames[0].time, text = new TextEncoder().encode(JSON.stringify({
        times_s: frames.map(function (frame) { return frame.time; }),
        lengths: frames.map(function (frame) { return frame.blob.size; }),
        rate_hz: this.rate || 48000,
      }));
      var length = new Uint8Array(4);
      new DataView(length.buffer).setUint32(0, text.length, true);
      var body = new Blob([length, text].concat(frames.map(function (frame) { return frame.blob; }), [this.soundFrom(start)]));
      var answer = await fetch("/api/clips", { method: "POST", body: body, headers: { "Content-Type": "application/octet-stream" } });
      if (!answer.ok) throw new Error((await answer.json().catch(function () { return {}; })).error || "The server answered with " + answer.status + ".");
      return answer.blob();
    }
  };

  /** Offer a file. */
  own.save = function (blob, name) {
    var address = URL.createObjectURL(blob), link = own.element("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(function () { URL.revokeObjectURL(address); }, 60000);
  };

  /** A name with the time in it. */
  own.stamped = function (ending) {
    var now = new Date();
    function two(number) { return String(number).padStart(2, "0"); }
    return "soundwhere-" + now.getFullYear() + two(now.getMonth() + 1) + two(now.getDate()) + "-" + two(now.getHours()) + two(now.getMinutes()) + two(now.getSeconds()) + ending;
  };
})(window.soundwhere);
