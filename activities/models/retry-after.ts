/** When a provider wants to be asked again: `retry-after-ms`, else `Retry-After` (RFC 9110 §10.2.3, seconds or a date). */

/** A server that says years is not obeyed: Temporal's own backoff asks again within the hour. */
const LONGEST_MS = 3_600_000;

export function retryAfterMs(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const inMs = positive(headers['retry-after-ms']);
  const given = headers['retry-after'];
  const inSeconds = positive(given);
  const wait = inMs ?? (inSeconds === undefined ? untilDate(given, nowMs) : inSeconds * 1_000);
  return wait === undefined ? undefined : Math.min(Math.ceil(wait), LONGEST_MS);
}

function positive(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,12}(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;
}

function untilDate(text: string | undefined, nowMs: number): number | undefined {
  const at = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
