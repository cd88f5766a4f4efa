"use strict";
// The server tells the tags of all parts whenever the study has changed; those with another tag are taken anew.
const known = new Map(JSON.parse(document.body.dataset.parts));
const take = async (tags) => {
  for (const name of [...known.keys()].filter((name) => !tags.some(([other]) => other === name))) {
    document.getElementById(name).remove();
    known.delete(name);
  }
  let before = null;
  for (const [name, tag] of tags) {
    let part = document.getElementById(name);
    if (known.get(name) !== tag) {
      const answer = await fetch(location.pathname + "/" + name);
      // It has changed again and is not there: the next tags say so.
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
      if (part) part.replaceWith(fresh);
      else before.after(fresh);
      start(fresh);
      part = fresh;
      known.set(name, answer.headers.get("ETag"));
    }
    before = part;
  }
};
let turn = Promise.resolve();
new EventSource(location.pathname + "/events").onmessage = ({ data }) => {
  turn = turn.then(() => take(JSON.parse(data))).catch(() => {});
};
