/** Which configured values are secrets: of headers, so that they can be scrubbed; `Authorization` itself is refused. */

const SECRET_NAME = /key|token|secret|auth|cookie|password|credential|signature/i;

export function secretHeaderValues(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .map(([name, value]) => ({ name, value: asSent(value) }))
    .filter(({ name, value }) => SECRET_NAME.test(name) || looksRandom(value))
    .map(({ value }) => value);
}

/** HTTP has no white space around a value (RFC 9110 §5.5), so that a server echoes it without. */
function asSent(value: string): string {
  return value.trim();
}

/** Long, without spaces, letters and digits mixed: under whatever name, it is not prose. */
export function looksRandom(value: string): boolean {
  return /^[\x21-\x7e]{16,}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value) && !URL.canParse(value);
}
