/* Heat: maps on the network's grid become a smooth picture in the sources' colours. */
"use strict";
window.soundwhere = window.soundwhere || {};

(function (own) {
  var FINER = 14; // pixels per cell; the canvas enlarges bilinearly from there, which alone would look edgy

  /** Bytes from base64. */
  own.bytes = function (text) {
    var raw = atob(text), found = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  };

  /** Red, green and blue, 0 to 255, of #rrggbb. */
  own.rgb = function (colour) {
    var number = parseInt(colour.slice(1), 16);
    return [number >> 16, (number >> 8) & 255, number & 255];
  };

  /** For each fine cell the four coarse cells it comes from and their weights (Keys' cubic). */
  function taps(cells) {
    var count = cells * FINER, from = new Uint16Array(4 * count), weight = new Float32Array(4 * count);
    for (var i = 0; i < count; i++) {
      var place = (i + 0.5) / FINER - 0.5, base = Math.floor(place), t = place - base;
      var w = [((-0.5 * t + 1) * t - 0.5) * t, (1.5 * t - 2.5) * t * t + 1, ((-1.5 * t + 2) * t + 0.5) * t, (0.5 * t - 0.5) * t * t];
      for (var j = 0; j < 4; j++) {
        from[4 * i + j] = Math.min(cells - 1, Math.max(0, base - 1 + j));
        weight[4 * i + j] = w[j];
      }
    }
    return { count: count, from: from, weight: weight };
  }

  /** Everything about a result that changes with time. Times are those of the clip, in seconds. */
  own.Heat = class {
    constructor(data) {
      this.times = data.times_s;
      this.rows = data.grid[0];
      this.columns = data.grid[1];
      this.maps = own.bytes(data.maps);
      this.count = data.sources.length;
      this.confidences = data.sources.map(function (source) { return own.bytes(source.confidence); });
      this.soundings = data.sources.map(function (source) { return source.sounding; });
      this.down = taps(this.rows);
      this.across = taps(this.columns);
      this.canvas = document.createElement("canvas");
      this.canvas.width = this.across.count;
      this.canvas.height = this.down.count;
      this.context = this.canvas.getContext("2d");
      this.image = this.context.createImageData(this.across.count, this.down.count);
      this.coarse = new Float32Array(this.rows * this.columns);
      this.stretched = new Float32Array(this.rows * this.across.count);
      this.fine = data.sources.map(() => new Float32Array(this.across.count * this.down.count));
    }

    /** The analysed frames before and after a time, and how far it lies between them. */
    between(time) {
      var times = this.times, low = 0, high = times.length - 1;
      if (time <= times[0]) return [0, 0, 0];
      if (time >= times[high]) return [high, high, 0];
      while (high - low > 1) {
        var middle = (low + high) >> 1;
        if (times[middle] <= time) low = middle; else high = middle;
      }
      return [low, high, (time - times[low]) / (times[high] - times[low])];
    }

    /** How much a source sounds at a time: 0 or 1, with a slope between frames that differ. */
    presence(source, time) {
      var at = this.between(time), text = this.soundings[source];
      return Number(text[at[0]]) * (1 - at[2]) + Number(text[at[1]]) * at[2];
    }

    /** How surely a source is found at a time, 0 to 1. */
    confidence(source, time) {
      var at = this.between(time), values = this.confidences[source];
      return (values[at[0]] * (1 - at[2]) + values[at[1]] * at[2]) / 255;
    }

    /** Paint the heat of some sources onto `this.canvas`; false if there is nothing to see.
     *  layers: for each source {on, rgb}; where several are hot their colours mix. */
    paint(time, layers, opacity) {
      var shown = [];
      for (var k = 0; k < this.count; k++) {
        var strength = layers[k].on ? this.presence(k, time) : 0;
        if (strength > 0) {
          this.enlarge(k, time, strength);
          shown.push(k);
        }
      }
      if (!shown.length) return false;
      var pixels = this.image.data, size = this.across.count * this.down.count;
      for (var i = 0; i < size; i++) {
        var sum = 0, red = 0, green = 0, blue = 0;
        for (var s = 0; s < shown.length; s++) {
          var heat = this.fine[shown[s]][i], colour = layers[shown[s]].rgb;
          sum += heat;
          red += heat * colour[0];
          green += heat * colour[1];
          blue += heat * colour[2];
        }
        pixels[4 * i + 3] = 255 * opacity * Math.min(1, sum);
        if (sum > 0) {
          pixels[4 * i] = red / sum;
          pixels[4 * i + 1] = green / sum;
          pixels[4 * i + 2] = blue / sum;
        }
      }
      this.context.putImageData(this.image, 0, 0);
      return true;
    }

    /** One source's map at a time into `this.fine`, within 0 and 1. */
    enlarge(source, time, strength) {
      var at = this.between(time), cells = this.rows * this.columns, i, j, x, y, sum;
      var first = (at[0] * this.count + source) * cells, second = (at[1] * this.count + source) * cells;
      for (i = 0; i < cells; i++) {
        this.coarse[i] = (this.maps[first + i] * (1 - at[2]) + this.maps[second + i] * at[2]) * strength / 255;
      }
      var across = this.across, down = this.down, width = across.count, fine = this.fine[source];
      for (y = 0; y < this.rows; y++) {
        for (x = 0; x < width; x++) {
          sum = 0;
          for (j = 4 * x; j < 4 * x + 4; j++) sum += across.weight[j] * this.coarse[y * this.columns + across.from[j]];
          this.stretched[y * width + x] = sum;
        }
      }
      for (y = 0; y < down.count; y++) {
        for (x = 0; x < width; x++) {
          sum = 0;
          for (j = 4 * y; j < 4 * y + 4; j++) sum += down.weight[j] * this.stretched[down.from[j] * width + x];
          fine[y * width + x] = sum < 0 ? 0 : sum > 1 ? 1 : sum;
        }
      }
    }
  };
})(window.soundwhere);
