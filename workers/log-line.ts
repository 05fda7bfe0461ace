/**
 * The fields of one log line: those that the caller gives, and the code, server and words of an error.
 *
 * 1. An error that has no code says its name and where it was made, and no more: its message may quote requests, answers and keys
 *    (INV-S1). Those of Temporal's own kinds quote nothing of a run.
 * 2. Never fails: a value that is no JSON is left out.
 */
import { faultName } from '../activities/fault-name.ts';
import { codedFailureIn } from '../contracts/failure.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Errors of the SDK whose words are about workers, connections and tasks alone. */
const OWN_WORDS = new Set([
  'DeterminismViolationError',
  'GracefulShutdownPeriodExpiredError',
  'IllegalStateError',
  'ShutdownError',
  'TransportError',
  'UnexpectedError',
]);

/** Those that the line itself has. */
const TAKEN = new Set(['level', 'time', 'message']);

export function logFields(meta: Fields | undefined): Fields {
  const said: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(meta ?? {})) {
    if (value instanceof Error) Object.assign(said, { ...errorFields(value), ...pick(said, ['code', 'server']) });
    else said[TAKEN.has(name) ? `${name}_` : name] = jsonOf(value);
  }
  return said;
}

function errorFields(error: Error): Fields {
  const coded = codedFailureIn(error);
  if (coded !== undefined) {
    const { code, message, facts } = coded;
    const { server } = facts;
    return { code, ...(server === undefined ? {} : { server }), error: { message, ...facts } };
  }
  const name = faultName(error);
  const code: unknown = Reflect.get(error, 'code');
  const made = /^ {4}at .*$/m.exec(error.stack ?? '')?.[0].trim();
  return {
    error: {
      name,
      ...(OWN_WORDS.has(name) ? { message: error.message } : {}),
      ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
      ...(made === undefined ? {} : { made }),
    },
  };
}

function pick(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)));
}

function jsonOf(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  try {
    JSON.stringify(value);
    return value;
  } catch {
    return undefined;
  }
}
