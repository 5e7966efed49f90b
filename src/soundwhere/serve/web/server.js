/* What the page asks the server for. Every answer that is no success becomes an Error with `remedy` and `status`. */
"use strict";

(function (own) {
  function problem(status, answer) {
    var error = new Error((answer && (answer.error || JSON.stringify(answer.detail))) || "The server answered with " + status + ".");
    error.remedy = (answer && answer.remedy) || "";
    error.status = status;
    return error;
  }

  async function ask(method, path, body) {
    var options = { method: method, headers: {} };
    if (body) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    var answer = await fetch(path, options);
    var value = await answer.json().catch(function () { return null; });
    if (!answer.ok) throw problem(answer.status, value);
    return value;
  }

  own.server = {
    session: function () { return ask("GET", "/api/session"); },
    clips: function () { return ask("GET", "/api/clips"); },
    jobs: function () { return ask("GET", "/api/jobs"); },
    player: function (id) { return ask("GET", "/api/jobs/" + id + "/player"); },
    pick: function (clip, options) { return ask("POST", "/api/jobs", Object.assign({ clip: clip }, options)); },
    retry: function (id) { return ask("POST", "/api/jobs/" + id + "/retry"); },
    cancel: function (id) { return ask("POST", "/api/jobs/" + id + "/cancel"); },
    remove: function (id) { return ask("DELETE", "/api/jobs/" + id); },

    /** Send a file. `about`: batch, half, sound, model, fps, sources. Returns {done: promise of the answer, abort()};
     *  `progress` is called with bytes sent and their total. */
    upload: function (file, about, progress) {
      var request = new XMLHttpRequest();
      var done = new Promise(function (resolve, reject) {
        request.upload.onprogress = function (event) { progress(event.loaded, event.total); };
        request.onload = function () {
          var answer = null;
          try { answer = JSON.parse(request.responseText); } catch (error) { /* no JSON: the status tells */ }
          if (request.status === 200) resolve(answer); else reject(problem(request.status, answer));
        };
        request.onerror = function () { reject(new Error("The upload was interrupted.")); };
        request.onabort = function () { resolve(null); };
        request.open("POST", "/api/uploads?" + new URLSearchParams(Object.assign({ name: file.name }, about)));
        request.setRequestHeader("Content-Type", "application/octet-stream");
        request.send(file);
      });
      return { done: done, abort: function () { request.abort(); } };
    },
  };
})(window.soundwhere);
