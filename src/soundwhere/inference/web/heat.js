/* Heat: maps on the network's grid become a smooth picture in the sources' colours. */
"use strict";
window.soundwhere = window.soundwhere || {};

(function (own) {
  // As the overlay video is drawn (geometry.py, draw.py): bicubically to a finer grid, from there bilinearly by the canvas
  var FINER = 8, BEND = -0.75, TRACE = 1e-4;

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

  /** Weight of a cell at a distance below 2 (the cubic convolution that torch uses). */
  function cubic(distance) {
    var d = Math.abs(distance);
    return d <= 1 ? ((BEND + 2) * d - (BEND + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * BEND;
  }

  /** For each fine cell the four coarse cells it comes from and their weights. */
  function taps(cells) {
    var count = cells * FINER, from = new Uint16Array(4 * count), weight = new Float32Array(4 * count);
    for (var i = 0; i < count; i++) {
      var place = (i + 0.5) / FINER - 0.5, base = Math.floor(place), t = place - base;
      for (var j = 0; j < 4; j++) {
        from[4 * i + j] = Math.min(cells - 1, Math.max(0, base - 1 + j));
        weight[4 * i + j] = cubic(t + 1 - j);
      }
    }
    return { count: count, from: from, weight: weight };
  }

  /** Enlarge what was painted over all of a context, bilinearly. */
  own.lay = function (context, canvas, wide, high) {
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "low";
    context.drawImage(canvas, 0, 0, wide, high);
  };

  /** Maps of one moment, painted onto `canvas` in the colours of their sources. */
  own.Layer = class {
    constructor(rows, columns, count) {
      this.rows = rows;
      this.columns = columns;
      this.count = count;
      this.down = taps(rows);
      this.across = taps(columns);
      this.canvas = document.createElement("canvas");
      this.canvas.width = this.across.count;
      this.canvas.height = this.down.count;
      this.context = this.canvas.getContext("2d");
      this.image = this.context.createImageData(this.across.count, this.down.count);
      this.stretched = new Float32Array(rows * this.across.count);
      this.coarse = new Float32Array(rows * columns);
      this.fine = Array.from({ length: count }, () => new Float32Array(this.across.count * this.down.count));
    }

    /** Paint what `read(source, coarse)` puts into a map, within 0 and 1; false if it says there is nothing to see.
     *  layers: for each source {on, rgb}; where several are hot their colours mix. */
    paintMaps(read, layers, opacity) {
      var shown = [];
      for (var k = 0; k < this.count; k++) {
        if (layers[k].on && read(k, this.coarse)) {
          this.enlarge(this.fine[k]);
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
          red += (heat + TRACE) * colour[0];
          green += (heat + TRACE) * colour[1];
          blue += (heat + TRACE) * colour[2];
        }
        var all = sum + TRACE * shown.length;
        pixels[4 * i] = red / all; // which the array rounds
        pixels[4 * i + 1] = green / all;
        pixels[4 * i + 2] = blue / all;
        pixels[4 * i + 3] = 255 * opacity * Math.min(1, sum);
      }
      this.context.putImageData(this.image, 0, 0);
      return true;
    }

    /** The coarse map on the finer grid, within 0 and 1. */
    enlarge(fine) {
      var across = this.across, down = this.down, width = across.count, j, x, y, sum;
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

  /** Everything about a result that changes with time. Times are those of the clip, in seconds. */
  own.Heat = class extends own.Layer {
    constructor(data) {
      super(data.grid[0], data.grid[1], data.sources.length);
      this.times = data.times_s;
      this.maps = own.bytes(data.maps);
      this.ranges = data.ranges;
      this.confidences = data.sources.map(function (source) { return own.bytes(source.confidence); });
      this.soundings = data.sources.map(function (source) { return source.sounding; });
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

    /** Paint the heat of some sources at a time onto `canvas`; false if there is nothing to see. */
    paint(time, layers, opacity) {
      var self = this;
      return this.paintMaps(function (source, coarse) { return self.read(source, time, coarse); }, layers, opacity);
    }

    /** The upper half of a source's map at a time, stretched over [0, 1], times how much it sounds; false if it does not. */
    read(source, time, coarse) {
      var strength = this.presence(source, time), at = this.between(time), cells = coarse.length, i;
      if (!(strength > 0)) return false;
      var first = at[0] * this.count + source, second = at[1] * this.count + source, maps = this.maps;
      var a = this.ranges[first], b = this.ranges[second], low = Infinity, high = -Infinity;
      for (i = 0; i < cells; i++) {
        var one = a[0] + (a[1] - a[0]) * maps[first * cells + i] / 255, two = b[0] + (b[1] - b[0]) * maps[second * cells + i] / 255;
        var value = one + at[2] * (two - one);
        coarse[i] = value;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
      var middle = (low + high) / 2, half = Math.max(high - middle, 1e-6);
      for (i = 0; i < cells; i++) coarse[i] = Math.max(0, Math.min(1, (coarse[i] - middle) / half)) * strength;
      return true;
    }
  };
})(window.soundwhere);
