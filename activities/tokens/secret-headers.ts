/**
 * Says which configured header values are secrets, so that they can be scrubbed; `Authorization` itself is
 * refused.
 */

const SECRET_NAME = /key|token|secret|auth|cookie|password|credential|signature/i;

export function secretHeaderValues(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .map(([name, value]) => ({ name, value: asSent(value) }))
    .filter(({ name, value }) => SECRET_NAME.test(name) || looksRandom(value))
    .map(({ value }) => value);
}

/** HTTP has no white space around a value (RFC 9110 §5.5), so a server echoes the value without it. */
function asSent(value: string): string {
  return value.trim();
}

/** A long value without spaces that mixes letters and digits is no prose, under whatever name. */
export function looksRandom(value: string): boolean {
  return /^[\x21-\x7e]{16,}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value) && !URL.canParse(value);
}
