// Keeps the page's own files, so that it opens without the server; texts and translations are never kept.
// The network comes first: what is kept is only for when nobody answers.
const KEPT = "regard-page";
const HOME = new URL("../", location.href).href;
const FILES = new URL("./", location.href).href;

const isOwn = (url) => url === HOME || url.startsWith(FILES);

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function fromNetwork(request) {
  const kept = await caches.open(KEPT);
  try {
    const response = await fetch(request);
    if (response.ok) await kept.put(request, response.clone());
    return response;
  } catch (error) {
    const found = await kept.match(request, { ignoreSearch: true });
    if (found) return found;
    throw error;
  }
}

self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && isOwn(event.request.url.split(/[?#]/)[0])) {
    event.respondWith(fromNetwork(event.request));
  }
});

// Files that were loaded before this worker ran.
self.addEventListener("message", (event) => {
  const keep = async () => {
    const kept = await caches.open(KEPT);
    await kept.addAll([...new Set(event.data.files)].filter((url) => isOwn(url.split(/[?#]/)[0])));
  };
  event.waitUntil(keep());
});
