/**
 * Writes the structured log of a process, Temporal's own lines included, and says where its metrics are read.
 *
 * 1. Every line is one JSON object with `level`, `time` and `message`; an error in it appears as code, server and
 *    words.
 * 2. Every line is scrubbed of the configuration's secrets, and of those of the newest tokens, before it is written
 *    (INV-S1).
 * 3. Lines of Temporal's native part come the same way. They are delayed by a tenth of a second, and written at the
 *    latest when the process ends.
 * 4. An error without a code shows its name and where it was made, and no more: its message may quote requests, answers
 *    and keys (INV-S1). Errors of Temporal's own kinds quote nothing of a run.
 * 5. Writing never fails: a value that is no JSON is left out.
 */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { pino, stdTimeFunctions } from 'pino';
import { faultName } from '../activities/kit/coded.ts';
import { createScrubber } from '../activities/kit/scrubber.ts';
import { CountersignError } from '../contracts/errors.ts';
import { codedFailureIn } from '../contracts/failure.ts';
import { isRefusedQuery } from '../contracts/refused-query.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { secretsOf } from './config/secrets.ts';
import { recentSecrets } from './recent-secrets.ts';

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** Log of the process itself; activities log through Temporal's own logger, which adds the names of the run. */
export interface Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Writes to stderr, so that stdout stays for answers. Call it before the first worker or connection of the process. */
export function installLog(config: Config): Log {
  const stderr = pino.destination({ fd: 2, sync: true });
  const write = lineWriter(config, (line) => void stderr.write(line));
  const level = config.log.level === 'trace' || config.log.level === 'debug' ? 'DEBUG' : 'WARN';
  const { metrics } = config;
  try {
    const runtime = Runtime.install({
      logger: new DefaultLogger(level, ({ level: at, message, meta }) => {
        // The SDK logs this as a failure, with a stack trace; it is none (docs/adr/0044).
        if (isRefusedQuery(meta?.['error']))
          write('info', 'A query is asked again', { workflowId: meta?.['workflowId'] });
        else write(LEVELS[at], message, meta);
      }),
      telemetryOptions: {
        logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} },
        ...(metrics === undefined ? {} : { metrics: { prometheus: { bindAddress: metrics.prometheus } } }),
      },
    });
    process.once('exit', () => flush(runtime.logger));
  } catch (error) {
    if (metrics === undefined || error instanceof IllegalStateError) throw error;
    throw new CountersignError(
      'CONFIG_INVALID',
      `metrics.prometheus cannot be opened at ${metrics.prometheus}: ${error instanceof Error ? error.message : 'no reason given'}. Each worker process needs an address of its own.`,
      { path: 'metrics.prometheus' },
      { cause: error },
    );
  }
  return {
    info: (message, fields) => write('info', message, fields),
    warn: (message, fields) => write('warn', message, fields),
    error: (message, fields) => write('error', message, fields),
  };
}

type Write = (
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** @param to takes one line, with its line end */
export function lineWriter(config: Config, to: (line: string) => void): Write {
  const scrub = createScrubber(secretsOf(config));
  const log = pino(
    {
      level: config.log.level,
      base: null,
      messageKey: 'message',
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => to(`${lineOf(recentSecrets.scrubbed(scrub.text(line.trimEnd())))}\n`) },
  );
  return (level, message, fields) => log[level](logFields(fields), message);
}

/** A text that is too costly to search is masked as a whole: the rest is a word, and no object. */
function lineOf(scrubbed: string): string {
  if (scrubbed.startsWith('{') && scrubbed.endsWith('}')) return scrubbed;
  return JSON.stringify({ level: 'warn', time: new Date().toISOString(), message: scrubbed });
}

function flush(logger: object): void {
  if ('flush' in logger && typeof logger.flush === 'function') Reflect.apply(logger.flush, logger, []);
}

type Fields = Readonly<Record<string, unknown>>;

/** Errors of the SDK whose messages are about workers, connections and tasks alone. */
const OWN_WORDS = new Set([
  'DeterminismViolationError',
  'GracefulShutdownPeriodExpiredError',
  'IllegalStateError',
  'ShutdownError',
  'TransportError',
  'UnexpectedError',
]);

/** Fields that the line itself has. */
const TAKEN = new Set(['level', 'time', 'message']);

function logFields(meta: Fields | undefined): Fields {
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
