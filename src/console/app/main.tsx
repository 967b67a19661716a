/** Shows whether somebody is signed in. */
const key = sessionStorage.getItem("key");
const answer = await fetch("/console/session", { headers: key === null ? {} : { "stc-console-key": key } });
const app = document.getElementById("app");
if (app !== null) app.textContent = answer.ok ? `Signed in as ${(await answer.json()).sub}` : "Signed out";
