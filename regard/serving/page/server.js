// Requests to the server, with the API key of this tab; and its refusals in plain words.
import { answered, Trouble } from "./ask.js";

/** The server wants an API key, or does not take this one. */
export class KeyRefused extends Trouble {}

let key = "";
try {
  key = sessionStorage.getItem("key") ?? "";
} catch {
  // storage is not available
}

export const hasKey = () => key !== "";

/** The key for all further requests, kept until this tab is closed; "" forgets it. */
export function useKey(given) {
  key = given;
  try {
    if (key) sessionStorage.setItem("key", key);
    else sessionStorage.removeItem("key");
  } catch {
    // storage is not available
  }
}

export const authorization = () => (key ? { Authorization: `Bearer ${key}` } : {});

/** A refusal as an error to show. */
export function refused(response, found) {
  const words = found?.error ?? response.statusText;
  const seconds = Number(response.headers?.get?.("Retry-After")) || 0;
  const later = seconds ? `try again in ${seconds} s` : "try again later";
  const { status } = response;
  if (status === 401 || words === "Invalid API key" || words.endsWith("to get an API key")) return new KeyRefused(words);
  if (status === 429) return new Trouble(`You asked more often than this server allows: ${later}.`, true);
  if (status === 413) return new Trouble("This is larger than the server takes. Send less at once.");
  if (status === 503) return new Trouble(`The server is busy: ${later}.`, true);
  if (status === 504) return new Trouble("This took too long. Send less at once.");
  return new Trouble(words, status >= 500);
}

export const get = (path, signal) => answered(path, { headers: authorization(), signal }, refused);

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json", ...authorization() };
  return answered(path, { method: "POST", headers, body: JSON.stringify(body), signal }, refused);
}
