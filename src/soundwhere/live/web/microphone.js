/* Runs where sound is made: hands on every 2048 samples, the mean of all channels. */
"use strict";

class Taker extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(2048);
    this.count = 0;
  }

  process(inputs) {
    var channels = inputs[0];
    if (!channels.length) return true;
    for (var i = 0; i < channels[0].length; i++) {
      var sum = 0;
      for (var c = 0; c < channels.length; c++) sum += channels[c][i];
      this.samples[this.count++] = sum / channels.length;
      if (this.count === this.samples.length) {
        this.port.postMessage(this.samples.slice());
        this.count = 0;
      }
    }
    return true;
  }
}

registerProcessor("taker", Taker);
