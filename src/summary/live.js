"use strict";
// The server says when the study has changed; what is on the page is taken anew then.
new EventSource(location.pathname + "/events").onmessage = async () => {
  const answer = await fetch(location.pathname);
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of ["header", "main"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
  start();
};
