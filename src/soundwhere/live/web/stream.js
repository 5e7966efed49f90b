/* The connection to the server: frames and sound out, answers in. What cannot be sent at once is not sent at all. */
"use strict";

(function (own) {
  var IN_FLIGHT = 2, FULL_BYTES = 1 << 18, STILL_HERE_MS = 5000, PATIENCE_MS = 2000, AGAIN_MS = 1500;

  function head(kind, size) {
    var view = new DataView(new ArrayBuffer(16 + size));
    view.setUint32(0, kind, true);
    return view;
  }

  own.Stream = class {
    /** actions: answer(about, maps), problem(error, remedy), open(), lost(). */
    constructor(actions) {
      this.actions = actions;
      this.connect();
      var self = this;
      this.pulse = setInterval(function () { if (self.ready) self.socket.send("still here"); }, STILL_HERE_MS);
    }

    connect() {
      var self = this, socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/api/live");
      this.socket = socket;
      this.sent = []; // times of frames that were not answered yet
      socket.binaryType = "arraybuffer";
      socket.onopen = function () { self.actions.open(); };
      socket.onmessage = function (event) { self.receive(event.data); };
      socket.onclose = function () {
        if (self.closed) return;
        self.actions.lost();
        self.again = setTimeout(function () { self.connect(); }, AGAIN_MS);
      };
    }

    get ready() { return this.socket.readyState === WebSocket.OPEN; }

    receive(data) {
      if (typeof data === "string") {
        var told = JSON.parse(data);
        this.close(); // it would say the same again
        this.actions.problem(told.error, told.remedy);
        return;
      }
      var length = new DataView(data).getUint32(0, true);
      var about = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
      this.sent = this.sent.filter(function (time) { return time > about.time_s; });
      this.actions.answer(about, new Uint8Array(data, 4 + length));
    }

    /** Whether a frame would be looked at soon. */
    get free() {
      if (!this.ready || this.socket.bufferedAmount > 0) return false;
      return this.sent.length < IN_FLIGHT || performance.now() - 1000 * this.sent[this.sent.length - 1] > PATIENCE_MS;
    }

    frame(pixels, width, height, time) {
      var view = head(1, pixels.length);
      view.setUint16(4, width, true);
      view.setUint16(6, height, true);
      view.setFloat64(8, time, true);
      new Uint8Array(view.buffer, 16).set(pixels);
      this.socket.send(view.buffer);
      this.sent.push(time);
    }

    sound(samples, rate, time) {
      if (!this.ready || this.socket.bufferedAmount > FULL_BYTES) return;
      var view = head(2, 4 * samples.length);
      view.setUint32(4, rate, true);
      view.setFloat64(8, time, true);
      new Float32Array(view.buffer, 16).set(samples);
      this.socket.send(view.buffer);
    }

    close() {
      this.closed = true;
      clearInterval(this.pulse);
      clearTimeout(this.again);
      this.socket.close();
    }
  };
})(window.soundwhere);
