/* The live page: what comes in goes to the server, what it answers is drawn. Times are the page's own, in seconds. */
"use strict";

(function (own) {
  var make = own.element, OPACITY_STEP = 0.1, QUIET_DB = -50, QUIET_S = 0.7, RECENT_S = 3, SAY_S = 3, SILENT_DB = -60;
  function at(id) { return document.getElementById(id); }
  function now() { return performance.now() / 1000; }
  function median(values) { return values.slice().sort(function (a, b) { return a - b; })[values.length >> 1]; }

  var page = {
    session: null, state: "idle", layers: [], rows: [], opacity: 0.7, layer: null, hot: false, last: null,
    answers: [], latencies: [], onsets: [], dropped: 0, paused: 0, lost: false, onset: null, loudAt: -Infinity, levelDb: -Infinity,
  };
  own.live = page; // for whoever measures
  var video = at("video"), canvas = at("heat"), small = document.createElement("canvas"), recorder = new own.Recorder();
  var input = new own.Input(video, heard), stream = null, curves = null, timer = 0, saidAt = 0;

  // What goes wrong

  function problem(words) {
    page.lost = false;
    at("problem").textContent = words;
    at("problem").hidden = !words;
  }

  // States

  function become(state) {
    page.state = state;
    at("live").dataset.state = state;
    var paused = state === "paused", idle = state === "idle";
    pause.replaceChildren(own.icon(paused ? "play" : "pause"));
    pause.setAttribute("aria-label", paused ? "Go on" : "Pause");
    [pause, snap, clip, other].forEach(function (button) { button.disabled = idle; });
  }

  async function start(open, kept) {
    problem("");
    try {
      await open();
      if (!page.session) await begin(); // the server was not there when the page came
      if (!stream) connect();
      recorder.forget();
      page.started = now();
      become("running");
      resize();
      problem(input.mute);
      at("listen").hidden = !input.asleep;
      sessionStorage.setItem("soundwhere-live", kept);
      clearInterval(timer);
      timer = setInterval(tick, 1000 / page.session.fps);
    } catch (error) {
      stop();
      problem(kept === "camera" ? own.deviceProblem(error) : error.message);
    }
  }

  function useCamera() {
    return start(async function () {
      var got = await input.openCamera(at("camera").value, at("microphone").value);
      got.getTracks().forEach(function (track) {
        track.onended = function () {
          stop();
          problem("The " + (track.kind === "audio" ? "microphone" : "camera") + " is gone. Connect it and start again.");
        };
      });
      await listDevices(got);
    }, "camera");
  }

  function useFile(file) {
    at("devices").hidden = true;
    return start(function () { return input.openFile(file); }, "file");
  }

  async function listDevices(got) {
    var devices = await navigator.mediaDevices.enumerateDevices();
    [["camera", "videoinput", got.getVideoTracks()[0]], ["microphone", "audioinput", got.getAudioTracks()[0]]].forEach(function (row) {
      var used = row[2] ? row[2].getSettings().deviceId : "";
      at(row[0]).replaceChildren.apply(at(row[0]), devices.filter(function (device) { return device.kind === row[1]; }).map(function (device, number) {
        return make("option", { value: device.deviceId, selected: device.deviceId === used }, [device.label || row[0] + " " + (number + 1)]);
      }));
    });
    at("devices").hidden = false;
  }

  function stop() {
    clearInterval(timer);
    input.close();
    video.removeAttribute("src");
    video.srcObject = null;
    sessionStorage.removeItem("soundwhere-live");
    page.hot = false;
    draw();
    forget();
    become("idle");
  }

  /** Nothing is said about what is over. */
  function forget() {
    [page.answers, page.latencies, page.onsets].forEach(function (list) { list.length = 0; });
    Object.assign(page, { dropped: 0, last: null, onset: null, levelDb: -Infinity });
    page.rows.forEach(function (row) { row.show({ sounding: false, place: "", confidence: 0 }); });
    ["rate", "latency", "onset", "dropped", "level", "said"].forEach(function (id) { at(id).textContent = id === "said" ? "" : "–"; });
    at("level-bar").style.width = "0";
    at("level-meter").setAttribute("aria-valuenow", String(SILENT_DB));
    if (curves) curves.clear();
  }

  function toggle() {
    if (page.state === "idle") return;
    if (page.state === "running") {
      video.pause();
      page.pausedAt = now();
      become("paused");
    } else {
      page.paused += now() - page.pausedAt;
      page.onset = null;
      input.wake();
      video.play();
      become("running");
    }
  }

  // Out

  function connect() {
    stream = new own.Stream({
      answer: answer,
      open: function () { if (page.lost) problem(input.mute || ""); }, // anything else is still true
      lost: function () {
        if (!page.lost) problem("The server is not answering. Trying again…");
        page.lost = true;
        session().catch(function (error) { // one that was started again has another key
          if (error.refused && page.lost) at("problem").textContent = error.message;
        });
      },
      problem: function (error, remedy) {
        stream = null;
        stop();
        problem(error + (remedy ? " " + remedy : ""));
      },
    });
  }

  function heard(samples, rate) {
    if (page.state !== "running") return;
    var time = now(), sum = 0;
    for (var i = 0; i < samples.length; i++) sum += samples[i] * samples[i];
    page.levelDb = 10 * Math.log10(sum / samples.length + 1e-12);
    if (page.levelDb > QUIET_DB) {
      if (time - page.loudAt > QUIET_S) page.onset = time - samples.length / rate;
      page.loudAt = time;
    }
    if (stream) stream.sound(samples, rate, time);
    recorder.sound(time - page.paused, samples, rate);
  }

  function tick() {
    if (page.state !== "running" || !video.videoWidth) return;
    if (stream && stream.free) {
      var scale = page.session.frame_px / Math.min(video.videoWidth, video.videoHeight), context;
      small.width = Math.max(1, Math.round(video.videoWidth * scale));
      small.height = Math.max(1, Math.round(video.videoHeight * scale));
      context = small.getContext("2d", { willReadFrequently: true });
      context.imageSmoothingQuality = "high";
      context.drawImage(video, 0, 0, small.width, small.height);
      stream.frame(context.getImageData(0, 0, small.width, small.height).data, small.width, small.height, now());
    }
    recorder.picture(now() - page.paused, video.videoWidth, video.videoHeight, compose);
    at("listen").hidden = !input.asleep;
    showFigures();
    curves.draw(now());
  }

  // In

  function answer(about, maps) {
    if (page.state === "idle") return;
    var cells = about.grid[0] * about.grid[1], layer = page.layer;
    if (!layer || layer.rows !== about.grid[0] || layer.columns !== about.grid[1]) layer = page.layer = new own.Layer(about.grid[0], about.grid[1], page.layers.length);
    page.last = about;
    page.maps = maps;
    page.hot = layer.paintMaps(function (source, coarse) {
      if (!about.sources[source].sounding) return false;
      for (var i = 0; i < cells; i++) coarse[i] = maps[source * cells + i] / 255;
      return true;
    }, page.layers, page.opacity);
    draw();
    note(about, now());
    curves.add(about.time_s, about.sources);
    page.rows.forEach(function (row, number) { row.show(about.sources[number]); });
    say(about);
  }

  /** Keep how long it took: from the newest sound that counted to now, when its heat is drawn. */
  function note(about, time) {
    page.answers.push(time);
    page.dropped += about.dropped;
    if (about.sound_s !== null) page.latencies.push({ time: time, seconds: time - about.sound_s, server: about.latency_s });
    if (page.onset !== null && about.sound_s >= page.onset && page.hot) {
      page.onsets.push(time - page.onset);
      page.onset = null;
    }
    while (page.answers[0] < time - 60) page.answers.shift();
    while (page.latencies.length && page.latencies[0].time < time - 60) page.latencies.shift();
  }

  function say(about) {
    if (now() - saidAt < SAY_S) return;
    var words = about.sources.map(function (source, number) { return source.sounding ? page.rows[number].name() + ": " + source.place : ""; }).filter(Boolean).join(". ") || "Nothing sounds.";
    if (at("said").textContent === words) return;
    saidAt = now();
    at("said").textContent = words;
  }

  // On the screen

  function resize() {
    var wide = at("stage").clientWidth, high = at("stage").clientHeight;
    if (!wide || !video.videoWidth) return;
    var scale = Math.min(wide / video.videoWidth, high / video.videoHeight), width = video.videoWidth * scale, height = video.videoHeight * scale;
    Object.assign(canvas.style, { left: (wide - width) / 2 + "px", top: (high - height) / 2 + "px", width: width + "px", height: height + "px" });
    canvas.width = Math.round(width);
    canvas.height = Math.round(height);
    draw();
  }

  function draw() {
    var context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (page.hot) own.lay(context, page.layer.canvas, canvas.width, canvas.height);
  }

  function compose(context, wide, high) {
    context.drawImage(video, 0, 0, wide, high);
    if (page.hot) own.lay(context, page.layer.canvas, wide, high);
  }

  function showFigures() {
    var time = now(), recent = page.answers.filter(function (each) { return each > time - RECENT_S; });
    var late = page.latencies.filter(function (each) { return each.time > time - RECENT_S; }).map(function (each) { return each.seconds; });
    at("rate").textContent = (recent.length / Math.min(RECENT_S, Math.max(1, time - page.started))).toFixed(1);
    at("latency").textContent = late.length ? median(late).toFixed(2) + " s" : "–";
    at("onset").textContent = page.onsets.length ? page.onsets[page.onsets.length - 1].toFixed(2) + " s" : "–";
    at("dropped").textContent = String(page.dropped);
    var level = Math.max(SILENT_DB, Math.min(0, page.levelDb)), silent = page.last && (page.last.level_db === null || page.last.level_db < SILENT_DB);
    at("level-bar").style.width = 100 * (1 - level / SILENT_DB) + "%";
    at("level-meter").setAttribute("aria-valuenow", String(Math.round(level)));
    at("level").textContent = input.mute ? "No microphone." : silent ? "Silent: the picture stays dark." : Math.round(level) + " dB";
    clip.querySelector("b").textContent = "Save the last " + Math.max(1, Math.round(recorder.seconds)) + " s";
  }

  function sourceRow(number, colour) {
    var name = make("b", {}, ["Source " + (number + 1)]), place = make("span", { class: "place" }), bar = make("i", {});
    var meter = make("div", { class: "meter", role: "meter", "aria-label": "Confidence of source " + (number + 1), "aria-valuemin": "0", "aria-valuemax": "1", "aria-valuenow": "0" }, [bar]);
    var row = make("li", { class: "source", "data-source": number + 1, style: { "--colour": colour } }, [make("span", { class: "dot", "aria-hidden": "true" }), make("div", {}, [name, place]), meter]);
    row.name = function () { return name.textContent; };
    row.show = function (source) {
      row.classList.toggle("sounding", source.sounding);
      place.textContent = source.place || "–";
      bar.style.width = 100 * source.confidence + "%";
      meter.setAttribute("aria-valuenow", source.confidence.toFixed(2));
    };
    return row;
  }

  function setOpacity(value) {
    page.opacity = Math.min(1, Math.max(0, Math.round(value * 100) / 100));
    at("opacity").value = String(Math.round(100 * page.opacity));
    at("percent").textContent = at("opacity").value + "%";
  }

  // To keep

  function snapshot() {
    if (page.state === "idle") return;
    var whole = make("canvas", { width: video.videoWidth, height: video.videoHeight });
    compose(whole.getContext("2d"), whole.width, whole.height);
    whole.toBlob(function (blob) { own.save(blob, own.stamped(".png")); });
  }

  async function saveClip() {
    if (page.state === "idle" || recorder.frames.length < 2 || clip.disabled) return;
    clip.disabled = true;
    try {
      own.save(await recorder.clip(), own.stamped(".mp4"));
    } catch (error) {
      problem("The clip cannot be saved: " + error.message);
    }
    clip.disabled = page.state === "idle";
  }

  function fullscreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (at("live").requestFullscreen) at("live").requestFullscreen();
    else if (video.webkitEnterFullscreen) video.webkitEnterFullscreen(); // a phone that knows full screen for videos only
  }

  // Tools and keys

  var pause = own.button("pause", "Pause", toggle, "Space");
  var snap = own.button("camera", "Save a picture", snapshot, "S");
  var clip = make("button", { type: "button", class: "plain-button", id: "clip", title: "Save the last 30 seconds (V)", onclick: saveClip }, [own.icon("film"), make("b", {}, ["Save the last 30 s"])]);
  var other = make("button", { type: "button", class: "plain-button", id: "stop", onclick: stop }, ["Stop"]);
  at("tools").append(pause, snap, clip, make("span", { class: "space" }), other, own.button("full", "Full screen", fullscreen, "F"));

  document.addEventListener("keydown", function (event) {
    var kind = event.target.tagName, key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey || event.altKey || kind === "SELECT" || (kind === "INPUT" && event.target.type !== "range")) return;
    if (key === " " && kind !== "BUTTON") toggle();
    else if (key === "s") snapshot();
    else if (key === "v") saveClip();
    else if (key === "f") fullscreen();
    else if (key === "arrowup" && kind !== "INPUT") setOpacity(page.opacity + OPACITY_STEP);
    else if (key === "arrowdown" && kind !== "INPUT") setOpacity(page.opacity - OPACITY_STEP);
    else return;
    event.preventDefault();
  });
  at("use-camera").addEventListener("click", useCamera);
  at("file").addEventListener("change", function () {
    if (at("file").files.length) useFile(at("file").files[0]);
    at("file").value = "";
  });
  ["camera", "microphone"].forEach(function (id) { at(id).addEventListener("change", useCamera); });
  at("listen").addEventListener("click", function () { input.wake(); });
  at("opacity").addEventListener("input", function () { setOpacity(at("opacity").value / 100); });
  video.addEventListener("resize", resize); // a phone was turned
  new ResizeObserver(resize).observe(at("stage"));

  async function session() {
    var answer = await fetch("/api/session"), said = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(said.error), { refused: true });
    return said;
  }

  async function begin() {
    page.session = await session();
    page.layers = page.session.colours.map(function (colour) { return { on: true, rgb: own.rgb(colour) }; });
    page.rows = page.session.colours.map(function (colour, number) { return sourceRow(number, colour); });
    at("sources").replaceChildren.apply(at("sources"), page.rows);
    at("model").textContent = page.session.model;
    at("note").textContent = "The curves show how confidently each source is found; below " + page.session.least_confidence.toFixed(2) + ", the dotted line, and in silence nothing is drawn. " +
      "An answer is about the last 3 seconds of sound, so heat follows a new sound with some delay. soundwhere " + page.session.version + ".";
    curves = new own.Curves(at("curve"), page.session.colours, page.session.least_confidence);
    forget();
  }

  async function open() {
    var why = own.whyNoCamera(), here = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
    become("idle");
    setOpacity(page.opacity);
    at("private").hidden = !here;
    at("why").textContent = why;
    at("why").hidden = !why;
    at("use-camera").disabled = Boolean(why);
    try {
      await begin();
    } catch (error) {
      problem(error.message);
    }
    if (sessionStorage.getItem("soundwhere-live") === "camera" && !why) useCamera(); // after a reload
  }
  open();
})(window.soundwhere);
