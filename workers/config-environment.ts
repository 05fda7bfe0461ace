/**
 * `${NAME}` and `${NAME:-default}` inside the string values of a parsed configuration.
 *
 * 1. Substituted after parsing and in values only, so that what a variable holds can never become a field, a list or a comment.
 * 2. What is substituted is not looked at again: a secret that holds `${…}` stays as it is.
 * 3. An error names the variable and the path, never a value.
 */
import { CountersignError } from '../contracts/errors.ts';
import { pathText } from '../contracts/schemas/issues.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** `$${NAME}` stands for the text `${NAME}`. */
const REFERENCE = /\$(\$\{)|\$\{([^}]*)\}?/g;
const CONTENT = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/;

/** @param what names the file in errors. */
export function substitute(
  value: unknown,
  environment: Environment,
  what: string,
  path: readonly PropertyKey[] = [],
): unknown {
  if (typeof value === 'string') return substituteText(value, environment, what, path);
  if (Array.isArray(value)) return value.map((item, index) => substitute(item, environment, what, [...path, index]));
  if (value === null || typeof value !== 'object') return value;
  // fromEntries defines own properties, so a key `__proto__` stays a key and is refused as unknown.
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, substitute(inner, environment, what, [...path, key])]),
  );
}

function substituteText(text: string, environment: Environment, what: string, path: readonly PropertyKey[]): string {
  return text.replaceAll(REFERENCE, (whole, escaped: string | undefined, content: string | undefined) => {
    if (escaped !== undefined) return escaped;
    const [, name, otherwise] = whole.endsWith('}') ? (CONTENT.exec(content ?? '') ?? []) : [];
    if (name === undefined) {
      throw invalid(
        what,
        path,
        'has a reference that is not of the form ${NAME} or ${NAME:-default}; write $${ for the text itself',
      );
    }
    const found = Object.hasOwn(environment, name) ? environment[name] : undefined;
    // As in a shell: a default stands in for an empty variable too.
    const chosen = otherwise === undefined ? found : found === undefined || found === '' ? otherwise : found;
    if (chosen === undefined) throw invalid(what, path, `needs the environment variable ${name}, which is not set`);
    return chosen;
  });
}

function invalid(what: string, path: readonly PropertyKey[], reason: string): CountersignError {
  const shown = pathText(path);
  return new CountersignError(
    'CONFIG_INVALID',
    `The ${what} is not valid: ${shown} ${reason}. Correct it and try again.`,
    { path: shown },
  );
}
