// One training run, followed while it goes on: all it has written so far, and a word when there is more.

const OFTEN = 1500; // milliseconds between two questions about a run that goes on
const SELDOM = 5000; // and about one that does not, which may be resumed
const MOST = 20_000; // logs that are kept; of more, every second

/**
 * `heard(followed, ended)` after every answer that brought something new; `ended`: it went on until now.
 * Nothing is asked while the page is not seen.
 */
export function follow(studio, name, heard) {
  const own = { name, run: null, logs: [], validations: [], trouble: null, stop };
  let place = { at: 0, mark: "", more: false };
  let unheard = false; // something came of which there is more
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
      const every = place.more ? place.every : 1; // a long file is thinned alike from its beginning to its end
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
