/* The player: a clip with its heat as layers, its timeline and its panel. `new soundwhere.Player(root, data)`. */
"use strict";
window.soundwhere = window.soundwhere || {};

(function (own) {
  var OPACITY = 0.7, OPACITY_STEP = 0.1, MOST_PX = 1600;

  own.Player = class {
    constructor(root, data) {
      this.root = root;
      this.data = data;
      this.heat = new own.Heat(data);
      var names = this.storedNames();
      this.layers = data.sources.map(function (source, number) {
        return { on: true, colour: source.colour, rgb: own.rgb(source.colour), name: String(names[number] || "") };
      });
      this.view = "heat";
      this.opacity = OPACITY;
      this.split = 0.5;
      this.fresh = true; // the best moment is shown until somebody plays or seeks
      this.ended = new AbortController();
      this.build();
      this.listen();
      this.setView("heat");
      this.setOpacity(OPACITY);
      this.setLoop(true);
      this.layers.forEach(function (_, number) { this.change(number, {}); }, this);
      this.resize();
    }

    /** Stop, and leave nothing behind. */
    close() {
      this.ended.abort();
      this.watch.disconnect();
      cancelAnimationFrame(this.next);
      this.video.pause();
      this.video.removeAttribute("src");
      this.video.load();
      if (this.blob) URL.revokeObjectURL(this.blob);
      this.root.replaceChildren();
    }

    build() {
      var make = own.element, self = this, data = this.data;
      this.video = make("video", { playsinline: true, preload: "auto", "aria-label": data.title });
      this.canvas = make("canvas", { class: "heat", "aria-hidden": "true" });
      this.handle = make("div", {
        class: "split", role: "slider", tabindex: "0", "aria-label": "Where plain ends and heat begins",
        "aria-valuemin": "0", "aria-valuemax": "100", hidden: true,
      }, [make("span", { class: "left" }, ["plain"]), make("span", { class: "right" }, ["heat"]), make("i", {})]);
      this.big = make("button", { type: "button", class: "big", tabindex: "-1", "aria-hidden": "true", onclick: function () { self.toggle(); } }, [own.icon("play")]);
      this.problem = make("p", { class: "problem", role: "alert", hidden: true });
      this.stage = make("div", { class: "stage" }, [this.video, this.canvas, this.handle, this.big, this.problem]);

      this.playing = own.button("play", "Play", function () { self.toggle(); }, "Space");
      this.clock = make("output", { class: "clock", "aria-live": "off" });
      this.speed = make("select", { "aria-label": "Speed", title: "Speed", onchange: function () { self.video.playbackRate = Number(self.speed.value); } },
        [0.25, 0.5, 1, 2].map(function (rate) { return make("option", { value: rate, selected: rate === 1 }, [rate + "×"]); }));
      this.loop = own.button("loop", "Repeat", function () { self.setLoop(!self.video.loop); }, "L");
      this.sound = own.button("loud", "Mute", function () { self.setMuted(!self.video.muted); }, "M");
      var row = make("div", { class: "tools" }, [
        own.button("back", "One frame back", function () { self.frame(-1); }, ","),
        this.playing,
        own.button("forward", "One frame forward", function () { self.frame(1); }, "."),
        this.clock,
        make("span", { class: "space" }),
        this.speed, this.loop, this.sound,
        own.button("full", "Full screen", function () { self.fullscreen(); }, "F"),
        own.button("help", "Keys", function () { self.showHelp(); }, "?"),
      ]);

      var lanes = make("div", { class: "timeline" });
      this.choice = own.choice("What is shown", [
        ["heat", "Heat", "Heat over the picture"], ["split", "Compare", "Plain on the left, heat on the right (C)"], ["plain", "Plain", "The picture alone (P)"],
      ], function (view) { self.setView(view); });
      this.slider = make("input", { type: "range", min: "0", max: "100", "aria-label": "Opacity of the heat", oninput: function () { self.setOpacity(self.slider.value / 100); } });
      this.percent = make("output", {});
      this.rows = data.sources.map(function (source, number) {
        return own.sourceRow(source, self.layers[number], function (what) { self.change(number, what); });
      });
      var note = "The curves show how confidently each source is found. Below " + data.least_confidence.toFixed(2) + ", the dotted line, and in silence nothing is drawn. " +
        "Localised by " + data.model + " at " + data.analysis + ". soundwhere " + data.version + ".";
      var panel = make("aside", { class: "panel" }, [
        make("section", {}, [make("h2", {}, ["Sources"]), make("ul", { class: "sources" }, this.rows)]),
        make("section", {}, [make("h2", {}, ["View"]), this.choice, make("label", { class: "opacity" }, ["Opacity", this.slider, this.percent])]),
        make("section", { class: "downloads", hidden: !(data.files || []).length }, [make("h2", {}, ["Files"])].concat(own.fileList(data.files || []))),
        make("p", { class: "note" }, [note]),
      ]);
      this.keys = own.help();
      this.root.classList.add("player");
      this.root.style.setProperty("--shape", data.width + " / " + data.height);
      this.root.replaceChildren(make("div", { class: "main" }, [this.stage, row, lanes]), panel, this.keys);
      this.timeline = new own.Timeline(lanes, data, this.heat, this.layers, {
        seek: function (time) { self.seek(time); },
        hold: function (held) { self.hold(held); },
      });
      this.load();
    }

    /** Give the video its source: an address, or the bytes that came with the page. */
    load() {
      var video = this.data.video;
      if (video.base64) {
        this.blob = URL.createObjectURL(new Blob([own.bytes(video.base64)], { type: video.type }));
        video.base64 = "";
      }
      this.video.src = this.blob || video.src;
    }

    listen() {
      var self = this, video = this.video, signal = { signal: this.ended.signal };
      ["play", "pause"].forEach(function (name) {
        video.addEventListener(name, function () { self.showPlaying(); }, signal);
      });
      ["play", "seeked", "loadeddata", "timeupdate"].forEach(function (name) {
        video.addEventListener(name, function () { self.wake(); }, signal);
      });
      video.addEventListener("loadedmetadata", function () {
        if (self.fresh) video.currentTime = self.data.best_s - self.data.video.start_s;
      }, { signal: this.ended.signal, once: true });
      video.addEventListener("seeked", function () {
        if (self.wanted != null) self.seek(self.wanted);
      }, signal);
      video.addEventListener("error", function () {
        self.problem.textContent = "This browser cannot play the clip. The overlay video among the files may work elsewhere.";
        self.problem.hidden = false;
      }, signal);
      this.stage.addEventListener("click", function (event) {
        if (event.target === video || event.target === self.canvas || event.target === self.stage) self.toggle();
      }, signal);
      this.watch = new ResizeObserver(function () { self.resize(); });
      this.watch.observe(this.stage);
      this.watch.observe(this.timeline.track);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { self.resize(); }, signal);
      document.addEventListener("keydown", function (event) { self.key(event); }, signal);
      this.listenToSplit(signal);
    }

    listenToSplit(signal) {
      var self = this, handle = this.handle, dragging = false;
      handle.addEventListener("pointerdown", function (event) {
        dragging = true;
        handle.setPointerCapture(event.pointerId);
        event.preventDefault();
      }, signal);
      handle.addEventListener("pointermove", function (event) {
        if (!dragging) return;
        var box = self.canvas.getBoundingClientRect();
        self.setSplit((event.clientX - box.left) / box.width);
      }, signal);
      ["pointerup", "pointercancel"].forEach(function (name) {
        handle.addEventListener(name, function () { dragging = false; }, signal);
      });
    }

    // Time, in seconds of the clip

    get time() {
      return this.wanted != null ? this.wanted : this.video.currentTime + this.data.video.start_s;
    }

    /** Go to a time. While the browser is still going elsewhere, only the latest wish is kept. */
    seek(time) {
      this.touch();
      var data = this.data, last = data.end_s - 0.5 / data.frame_rate;
      var target = Math.min(Math.max(time, data.start_s), Math.max(data.start_s, last));
      if (this.video.seeking) {
        this.wanted = target;
      } else {
        this.wanted = null;
        this.video.currentTime = target - data.video.start_s;
      }
      this.wake();
    }

    /** One frame back or on, to its middle, where no rounding leads to a neighbour. */
    frame(step) {
      var rate = this.data.frame_rate;
      this.video.pause();
      var number = Math.floor((this.time - this.data.video.start_s) * rate + 1e-3) + step;
      this.seek((Math.max(0, number) + 0.5) / rate + this.data.video.start_s);
    }

    /** Pause while somebody drags along the timeline, and go on afterwards. */
    hold(held) {
      if (held) {
        this.resume = !this.video.paused;
        this.video.pause();
      } else if (this.resume) this.play();
    }

    toggle() {
      if (this.video.paused) this.play(); else this.video.pause();
    }

    play() {
      if (this.fresh) this.seek(this.data.start_s);
      var going = this.video.play();
      if (going) going.catch(function () {}); // a pause that comes first, or no permission: the sign tells
    }

    touch() {
      this.fresh = false;
      this.root.classList.add("touched");
    }

    // What is shown

    setView(view) {
      this.view = view;
      this.handle.hidden = view !== "split";
      this.root.dataset.view = view;
      this.choice.take(view);
      this.wake();
    }

    setOpacity(value) {
      this.opacity = Math.min(1, Math.max(0, Math.round(value * 100) / 100));
      this.slider.value = String(Math.round(this.opacity * 100));
      this.percent.textContent = this.slider.value + "%";
      this.wake();
    }

    setSplit(share) {
      this.split = Math.min(1, Math.max(0, share));
      this.handle.style.left = this.canvas.offsetLeft + this.split * this.canvas.offsetWidth + "px";
      this.handle.setAttribute("aria-valuenow", String(Math.round(100 * this.split)));
      this.wake();
    }

    setLoop(on) {
      this.video.loop = on;
      this.loop.setAttribute("aria-pressed", String(on));
    }

    setMuted(on) {
      this.video.muted = on;
      this.sound.replaceChildren(own.icon(on ? "mute" : "loud"));
      this.sound.setAttribute("aria-pressed", String(on));
    }

    change(number, what) {
      var layer = Object.assign(this.layers[number], what);
      layer.rgb = own.rgb(layer.colour);
      this.root.style.setProperty("--source-" + this.data.sources[number].number, layer.colour);
      this.rows[number].take(layer);
      this.timeline.name(number, layer.name || "Source " + this.data.sources[number].number);
      if ("name" in what) this.storeNames();
      this.wake();
    }

    /** Names that were typed stay with the browser, for each clip its own. */
    get place() { return "soundwhere-names " + (this.data.video.start_s || 0) + " " + this.data.title + " " + this.data.facts; }

    storedNames() {
      try {
        var names = JSON.parse(localStorage.getItem(this.place));
        return Array.isArray(names) ? names : [];
      } catch (error) {
        return []; // a browser that keeps nothing
      }
    }

    storeNames() {
      try {
        localStorage.setItem(this.place, JSON.stringify(this.layers.map(function (layer) { return layer.name; })));
      } catch (error) { /* likewise */ }
    }

    showPlaying() {
      var paused = this.video.paused;
      this.playing.replaceChildren(own.icon(paused ? "play" : "pause"));
      this.playing.setAttribute("aria-label", paused ? "Play" : "Pause");
      this.root.classList.toggle("running", !paused);
    }

    showHelp() {
      if (!this.keys.open) this.keys.showModal();
    }

    fullscreen() {
      if (document.fullscreenElement) document.exitFullscreen();
      else if (this.root.requestFullscreen) this.root.requestFullscreen();
      else if (this.video.webkitEnterFullscreen) this.video.webkitEnterFullscreen(); // a phone that knows it for videos only
    }

    // Drawing

    /** Put the canvas exactly over the picture, which keeps its shape within the stage. */
    resize() {
      var width = this.stage.clientWidth, height = this.stage.clientHeight;
      if (!width || !height) return;
      var scale = Math.min(width / this.data.width, height / this.data.height);
      var wide = this.data.width * scale, high = this.data.height * scale;
      [this.canvas, this.video].forEach(function (element) {
        element.style.left = (width - wide) / 2 + "px";
        element.style.top = (height - high) / 2 + "px";
        element.style.width = wide + "px";
        element.style.height = high + "px";
      });
      this.handle.style.top = (height - high) / 2 + "px";
      this.handle.style.height = high + "px";
      var sharp = Math.min(window.devicePixelRatio || 1, MOST_PX / wide);
      this.canvas.width = Math.max(1, Math.round(wide * sharp));
      this.canvas.height = Math.max(1, Math.round(high * sharp));
      this.setSplit(this.split);
      this.timeline.resize();
      this.wake();
    }

    /** Draw with the next frame of the screen, and go on as long as the clip plays. */
    wake() {
      if (this.next) return;
      var self = this;
      this.next = requestAnimationFrame(function () {
        self.next = 0;
        if (self.ended.signal.aborted) return;
        self.draw();
        if (!self.video.paused) self.wake();
      });
    }

    draw() {
      var time = this.time, context = this.canvas.getContext("2d"), wide = this.canvas.width, high = this.canvas.height;
      context.clearRect(0, 0, wide, high);
      if (this.view !== "plain" && this.heat.paint(time, this.layers, this.opacity)) {
        context.save();
        if (this.view === "split") {
          context.beginPath();
          context.rect(this.split * wide, 0, wide, high);
          context.clip();
        }
        own.lay(context, this.heat.canvas, wide, high);
        context.restore();
      }
      this.rows.forEach(function (row, number) {
        row.show(this.heat.confidence(number, time), this.heat.presence(number, time));
      }, this);
      this.clock.textContent = own.clock(time, true) + " / " + own.clock(this.data.end_s, true);
      this.timeline.draw(time);
    }

    // Keys

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || this.keys.open) return;
      var target = event.target, kind = target.tagName;
      if (target === this.handle && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
        this.setSplit(this.split + (event.key === "ArrowLeft" ? -0.02 : 0.02));
        event.preventDefault();
        return;
      }
      if (kind === "TEXTAREA" || kind === "SELECT" || (kind === "INPUT" && target.type !== "checkbox" && (target.type !== "range" || event.key.startsWith("Arrow")))) return;
      if (event.key === " " && (kind === "BUTTON" || kind === "INPUT" || kind === "SUMMARY" || kind === "A")) return;
      if (this.act(event)) event.preventDefault();
    }

    /** Do what a key stands for; false if it stands for nothing. */
    act(event) {
      var key = event.key.length === 1 ? event.key.toLowerCase() : event.key, step = event.shiftKey ? 5 : 1;
      if (key === " ") this.toggle();
      else if (key === "ArrowLeft") this.seek(this.time - step);
      else if (key === "ArrowRight") this.seek(this.time + step);
      else if (key === "ArrowUp") this.setOpacity(this.opacity + OPACITY_STEP);
      else if (key === "ArrowDown") this.setOpacity(this.opacity - OPACITY_STEP);
      else if (key === ",") this.frame(-1);
      else if (key === ".") this.frame(1);
      else if (key === "Home") this.seek(this.data.start_s);
      else if (key === "End") this.seek(this.data.end_s);
      else if (key === "c") this.setView(this.view === "split" ? "heat" : "split");
      else if (key === "p") this.setView(this.view === "plain" ? "heat" : "plain");
      else if (key === "l") this.setLoop(!this.video.loop);
      else if (key === "m") this.setMuted(!this.video.muted);
      else if (key === "f") this.fullscreen();
      else if (key === "?") this.showHelp();
      else if (key === "0") {
        var all = this.layers.every(function (layer) { return layer.on; });
        this.layers.forEach(function (_, number) { this.change(number, { on: !all }); }, this);
      } else if (/^[1-9]/.test(key) && this.layers[key - 1]) this.change(key - 1, { on: !this.layers[key - 1].on });
      else return false;
      return true;
    }
  };
})(window.soundwhere);
