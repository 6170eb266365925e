// Browsers give a page that is opened from the disk no web worker, and the search of the site runs in one.
// Here a hidden frame stands in for it: it runs the same script, and messages go to and fro as events.
if (window.location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = url
      this.ready = new Promise(done => script.addEventListener("load", done))
      frame.contentDocument.body.appendChild(script)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
