/**
 * Parameters of URLs that hold secrets, told by their names: one rule for specs and for configurations (INV-S1).
 * The names are those that servers take in URLs: `?key=`, `?sig=`, `?exaApiKey=`.
 */
const SECRET_NAME = /(key|token|secret|sig|signature|code|auth|authorization|password|passwd|credentials?)$/i;

/** @param name of a parameter, decoded */
export function namesSecret(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Whether a text has, as a URL has them in query or fragment, a parameter with such a name and a value. */
export function hasSecretParameter(text: string): boolean {
  return text
    .split(/[?&#]/)
    .slice(1)
    .some((parameter) => {
      const end = parameter.indexOf('=');
      // Without a space: prose has `&` and `?` too.
      return end > 0 && !/\s/.test(parameter.slice(0, end)) && namesSecret(decoded(parameter.slice(0, end)));
    });
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
