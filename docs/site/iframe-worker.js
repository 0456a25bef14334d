// Browsers start no worker for a page that was opened from a file. The search then works in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.ready = new Promise((resolve, reject) => {
        const frame = document.createElement("iframe")
        frame.hidden = true
        frame.srcdoc = ""
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inside.document.createElement("script")
          script.src = url
          script.onload = () => resolve(inside)
          script.onerror = reject
          inside.document.head.append(script)
        }
        document.body.append(frame)
      })
    }

    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
