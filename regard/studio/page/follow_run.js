// Follow a training run: polls its metrics and keeps everything read so far.

const OFTEN = 1500; // milliseconds between two requests while the run is going
const SELDOM = 5000; // and while it is not: it may be resumed
const MOST = 20_000; // log entries that are kept; beyond that, every second one

/**
 * Calls `heard(followed, ended)` after every answer with something new; `ended`: the run has just ended. Nothing is
 * requested while the page is hidden.
 */
export function follow(studio, name, heard) {
  const own = { name, run: null, logs: [], validations: [], trouble: null, stop };
  let place = { at: 0, mark: "", more: false };
  let unheard = false; // something new came, and there is more to read
  let timer = 0;
  let asking = new AbortController();

  async function poll() {
    clearTimeout(timer);
    if (document.hidden) return;
    asking.abort();
    const mine = (asking = new AbortController());
    const path = name.split("/").map(encodeURIComponent).join("/");
    let pause = OFTEN;
    try {
      const every = place.more ? place.every : 1; // a long file is thinned evenly
      const since = `since=${place.at}&mark=${encodeURIComponent(place.mark)}&every=${every}`;
      const answer = await studio.get(`runs/${path}?${since}`, mine.signal);
      if (mine.signal.aborted) return;
      const ended = own.run?.state === "running" && answer.run.state !== "running";
      const other = own.trouble || own.run?.state !== answer.run.state || answer.anew;
      unheard ||= Boolean(other || answer.logs.length || answer.validations.length);
      own.trouble = null;
      own.run = answer.run;
      if (answer.anew) [own.logs, own.validations] = [[], []];
      own.logs.push(...answer.logs);
      own.validations.push(...answer.validations);
      if (own.logs.length > MOST) own.logs = own.logs.filter((_, at) => (own.logs.length - at) % 2);
      place = answer;
      if (answer.more) pause = 0;
      else if (answer.run.state !== "running") pause = SELDOM;
      if (unheard && !answer.more) {
        unheard = false;
        heard(own, ended);
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      own.trouble = error;
      heard(own, false);
      pause = SELDOM;
    }
    timer = setTimeout(poll, pause);
  }

  const seen = () => !document.hidden && poll();
  document.addEventListener("visibilitychange", seen);
  function stop() {
    document.removeEventListener("visibilitychange", seen);
    clearTimeout(timer);
    asking.abort();
  }
  poll();
  return own;
}
