/* Pictures and sound: from camera and microphone, or from a file that is played.
 * Both end as a playing <video> and as samples handed to `heard(samples, rate)`. */
"use strict";

(function (own) {
  var SIZE = { width: { ideal: 1280 }, height: { ideal: 720 } };
  // As it is in the room: what phones do for calls would take away what is to be localised
  var SOUND = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

  /** Why this page gets no camera, in words; "" if it may ask for one. */
  own.whyNoCamera = function () {
    if (navigator.mediaDevices && navigator.mediaDevices.getUserMedia) return "";
    if (window.isSecureContext) return "This browser has no access to cameras.";
    var port = location.port || "80";
    return "Browsers give cameras and microphones only to pages on the same machine or over TLS (https), and this page came over " +
      "plain http from " + location.host + ".\n" +
      "Either tunnel: ssh -L " + port + ":127.0.0.1:" + port + " " + location.hostname + ", then open here the link that the server printed for itself, " +
      "http://127.0.0.1:" + port + "/ with the key. Or put a proxy with a certificate that this machine trusts before the server; docs/live.md has an example.\n" +
      "A file can be played without either.";
  };

  /** What went wrong with a camera or microphone, and what to do, in words. */
  own.deviceProblem = function (error) {
    var words = {
      NotAllowedError: "The browser was not allowed to use the camera or the microphone. Allow both beside the address of this page, then try again.",
      NotFoundError: "There is no camera, or no microphone. Connect one and try again, or choose a file.",
      NotReadableError: "Another program is using the camera or the microphone. Close it and try again.",
      OverconstrainedError: "The device that was chosen is gone. Try again with another.",
      AbortError: "The camera or the microphone did not start. Try again.",
    };
    return words[error.name] || "The camera or the microphone cannot be used: " + error.message;
  };

  own.Input = class {
    constructor(video, heard) {
      this.video = video;
      this.heard = heard;
    }

    /** Take camera and microphone; without a microphone the picture alone, and `mute` says so. */
    async openCamera(camera, microphone) {
      var picture = Object.assign({}, SIZE, camera ? { deviceId: { exact: camera } } : { facingMode: { ideal: "environment" } });
      var sound = Object.assign({}, SOUND, microphone ? { deviceId: { exact: microphone } } : {});
      var stream;
      this.mute = "";
      try {
        stream = await navigator.mediaDevices.getUserMedia({ video: picture, audio: sound });
      } catch (error) {
        if (error.name !== "NotFoundError" && error.name !== "NotReadableError") throw error;
        stream = await navigator.mediaDevices.getUserMedia({ video: picture });
        this.mute = "There is no microphone that can be used: the picture stays dark. Connect one, then start again.";
      }
      this.close();
      this.stream = stream;
      this.video.muted = true;
      this.video.srcObject = stream;
      await this.video.play();
      if (stream.getAudioTracks().length) {
        await this.take(function (context) { return context.createMediaStreamSource(stream); }, false);
      }
      return stream;
    }

    /** Play a file, over again from its beginning. */
    async openFile(file) {
      var self = this, address = URL.createObjectURL(file);
      this.close();
      this.address = address;
      this.mute = "";
      this.video.srcObject = null;
      this.video.muted = false;
      this.video.loop = true;
      this.video.src = address;
      await new Promise(function (resolve, reject) {
        self.video.onloadeddata = resolve;
        self.video.onerror = function () { reject(new Error("This browser cannot play " + file.name + ". `soundwhere " + file.name + "` can read more formats.")); };
      });
      if (!this.video.videoWidth) throw new Error(file.name + " has no picture. Choose a video.");
      await this.take(function (context) {
        // an element gives its sound away once: it is asked for it again and again
        self.element = self.element || { context: context, node: context.createMediaElementSource(self.video) };
        return self.element.node;
      }, true);
      await this.video.play();
    }

    /** Hand on samples of a source; `aloud` if it should be heard, too. */
    async take(source, aloud) {
      var self = this, Context = window.AudioContext || window.webkitAudioContext;
      var context = aloud && this.element ? this.element.context : new Context();
      this.context = context;
      this.node = source(context);
      if (context.audioWorklet) {
        await context.audioWorklet.addModule("/web/microphone.js");
        this.taker = new AudioWorkletNode(context, "taker", { numberOfOutputs: 1 });
        this.taker.port.onmessage = function (event) { self.heard(event.data, context.sampleRate); };
      } else { // over plain http there are no worklets
        this.taker = context.createScriptProcessor(2048, 1, 1);
        this.taker.onaudioprocess = function (event) { self.heard(event.inputBuffer.getChannelData(0).slice(), context.sampleRate); };
      }
      this.node.connect(this.taker);
      this.taker.connect(context.destination); // silent: it only keeps the taker going
      if (aloud) this.node.connect(context.destination);
      if (context.state === "suspended") await Promise.race([context.resume(), new Promise(function (done) { setTimeout(done, 500); })]);
    }

    /** Whether the browser waits for a tap before it gives any sound. */
    get asleep() { return Boolean(this.context) && this.context.state === "suspended"; }

    wake() { return this.context && this.context.resume(); }

    /** Let go of everything. */
    close() {
      if (this.stream) this.stream.getTracks().forEach(function (track) { track.stop(); });
      if (this.node) this.node.disconnect();
      if (this.taker) this.taker.disconnect();
      if (this.context && !(this.element && this.context === this.element.context)) this.context.close();
      if (this.address) URL.revokeObjectURL(this.address);
      this.stream = this.node = this.taker = this.context = this.address = null;
    }
  };
})(window.soundwhere);
