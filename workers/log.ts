/**
 * Writes the structured log of a process, Temporal's own lines included, and says where its metrics are read.
 *
 * 1. Every line is one JSON object with `level`, `time` and `message`; an error appears as code, server and words.
 * 2. Every line is scrubbed of the configuration's secrets, and of those of the newest tokens (INV-S1).
 * 3. Lines of Temporal's native part come the same way, a tenth of a second late, or when the process ends.
 * 4. An error without a code shows its name and where it was made, and no more: its message may quote requests, answers
 *    and keys (INV-S1). Errors of Temporal's own kinds quote nothing of a run.
 * 5. Writing never fails: a value that is no JSON is left out, and a line that cannot be written (the disk is full) is
 *    dropped. The next one that can be written is preceded by one that says how many were.
 */
import { IllegalStateError } from '@temporalio/common';
import { type ActivityInterceptorsFactory, DefaultLogger, Runtime } from '@temporalio/worker';
import { pino, stdTimeFunctions } from 'pino';
import { faultName } from '../activities/kit/activity.ts';
import { createScrubber } from '../activities/scrubbing/scrubber.ts';
import type { HeaderSecrets } from '../activities/tokens/configured.ts';
import { defined } from '../contracts/defined.ts';
import { CountersignError } from '../contracts/errors.ts';
import { codedFailureIn, isRefusedQuery } from '../contracts/failure.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { isFields } from '../domain/shapes/inputs.ts';
import { secretsOf } from './config/secrets.ts';
import { recentSecrets } from './recent-secrets.ts';

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

type Fields = Readonly<Record<string, unknown>>;

/** Log of the process itself; activities log through Temporal's own logger, which adds the names of the run. */
export interface Log {
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

const STDERR = 2;

/**
 * Writes to stderr, so that stdout stays for answers. Call it before the first worker or connection of the process.
 * @param headerSecrets those of the loaded configuration: lines are scrubbed of them too
 */
export function installLog(config: Config, headerSecrets?: HeaderSecrets): Log {
  const write = lineWriter(config, linesTo(STDERR), headerSecrets);
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
        ...defined({ metrics: metrics && { prometheus: { bindAddress: metrics.prometheus } } }),
      },
    });
    process.once('exit', () => flush(runtime.logger));
  } catch (error) {
    if (metrics === undefined || error instanceof IllegalStateError) throw error;
    const why = error instanceof Error ? error.message : 'no reason given';
    const message = `metrics.prometheus cannot be opened at ${metrics.prometheus}: ${why}. Each worker process needs an address of its own.`;
    throw new CountersignError('CONFIG_INVALID', message, { path: 'metrics.prometheus' }, { cause: error });
  }
  return {
    info: (message, fields) => write('info', message, fields),
    warn: (message, fields) => write('warn', message, fields),
    error: (message, fields) => write('error', message, fields),
  };
}

type Write = (level: (typeof LEVELS)[keyof typeof LEVELS], message: string, fields?: Fields) => void;

/** Takes one line, with its line end. */
type To = (line: string) => void;

/** Writes to an open file, and throws where it cannot. */
export function linesTo(fd: number): To {
  let destination = pino.destination({ fd, sync: true });
  return (line) => {
    try {
      destination.write(line);
    } catch (error) {
      // It keeps what it could not write, and would write it again before each next line.
      destination = pino.destination({ fd, sync: true });
      throw error;
    }
  };
}

/** A process does its work whether its log can be written or not. */
function neverFailing(to: To): To {
  let lost = 0;
  return (line) => {
    try {
      if (lost > 0) to(lossOf(lost));
      lost = 0;
      to(line);
    } catch {
      lost += 1;
    }
  };
}

/** Half of a line may have been written before the disk was full, so a new one is begun. */
function lossOf(lost: number): string {
  const lines = lost === 1 ? '1 line of this log' : `${lost} lines of this log`;
  return `\n${plainLine(`${lines} could not be written.`)}\n`;
}

/** @param to may throw: a line that it does not take is dropped */
export function lineWriter(config: Config, to: To, headerSecrets?: HeaderSecrets): Write {
  const take = neverFailing(to);
  const scrub = createScrubber(secretsOf(config, headerSecrets));
  const log = pino(
    {
      level: config.log.level,
      base: null,
      messageKey: 'message',
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => take(`${lineOf(recentSecrets.scrubbed(scrub.text(line.trimEnd())))}\n`) },
  );
  return (level, message, fields) => log[level](logFields(fields), message);
}

/** A text that is too costly to search is masked as a whole: the rest is a word, and no object. */
function lineOf(scrubbed: string): string {
  if (scrubbed.startsWith('{') && scrubbed.endsWith('}')) return scrubbed;
  return plainLine(scrubbed);
}

function plainLine(message: string): string {
  return JSON.stringify({ level: 'warn', time: new Date().toISOString(), message });
}

function flush(logger: object): void {
  if ('flush' in logger && typeof logger.flush === 'function') Reflect.apply(logger.flush, logger, []);
}

/** Errors of the SDK whose messages are about workers, connections and tasks alone. */
const OWN_WORDS = new Set([
  'DeterminismViolationError',
  'GracefulShutdownPeriodExpiredError',
  'IllegalStateError',
  'ShutdownError',
  'TransportError',
  'UnexpectedError',
]);

const TAKEN = new Set(['level', 'time', 'message']);

function logFields(meta: Fields | undefined): Fields {
  const said: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(meta ?? {})) {
    if (value instanceof Error) for (const [field, found] of Object.entries(errorFields(value))) said[field] ??= found;
    else said[TAKEN.has(name) ? `${name}_` : name] = jsonOf(value);
  }
  return said;
}

function errorFields(error: Error): Fields {
  const coded = codedFailureIn(error);
  if (coded !== undefined) {
    const { code, message, facts } = coded;
    const { server } = facts;
    return { code, ...defined({ server }), error: { message, ...facts } };
  }
  const name = faultName(error);
  const code: unknown = Reflect.get(error, 'code');
  const made = madeAt(error);
  return {
    error: {
      name,
      ...(OWN_WORDS.has(name) ? { message: error.message } : {}),
      ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
      ...defined({ made }),
    },
  };
}

/** Looks behind the message: it may quote a foreign stack trace, whose lines look like those of this one. */
function madeAt({ stack = '', message }: Error): string | undefined {
  const at = stack.indexOf(message);
  return at === -1 ? undefined : /^ {4}at .*$/m.exec(stack.slice(at + message.length))?.[0].trim();
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

/** Adds to every log line of an activity, beside Temporal's own fields, the server and the call that it is about. */
export function nameSubject(): ActivityInterceptorsFactory {
  return () => {
    let subject = {};
    return {
      inbound: {
        execute: async (input, next) => {
          subject = subjectOf(input.args[0]);
          return await next(input);
        },
      },
      outbound: { getLogAttributes: (attributes, next) => next({ ...attributes, ...subject }) },
    };
  };
}

export function subjectOf(input: unknown): Readonly<Record<string, string>> {
  if (!isFields(input)) return {};
  const server = nameOf(input['server']) ?? (isFields(input['target']) ? nameOf(input['target']['server']) : undefined);
  const callId = nameOf(input['callId']);
  return { ...defined({ server, callId }) };
}

function nameOf(value: unknown): string | undefined {
  const name = isFields(value) ? value['name'] : value;
  return typeof name === 'string' ? name : undefined;
}

/**
 * Logs the life of a worker: its start and settings, its stop and the reason, its end and how long the stop took.
 * @param worker describes what it serves, and as which build
 */
export function keepDiary(log: Log | undefined, worker: Fields) {
  const startedAt = performance.now();
  let stopping: { readonly why: string; readonly at: number } | undefined;
  const times = (): Fields => ({
    upSeconds: Math.round((performance.now() - startedAt) / 1_000),
    ...(stopping && { stoppingMs: Math.round(performance.now() - stopping.at) }),
  });
  log?.info('The worker has started.', worker);
  return {
    stops: (why: string): void => {
      if (stopping !== undefined) return;
      stopping = { why, at: performance.now() };
      log?.info('The worker stops: what is under way gets its time.', { ...worker, why });
    },
    followed: async (ended: Promise<void>): Promise<void> => {
      try {
        await ended;
      } catch (error) {
        const why = codedFailureIn(error)?.code ?? 'it failed by itself';
        log?.error('The worker has failed.', { ...worker, ...times(), why, error });
        throw error;
      }
      const why = stopping?.why ?? 'it ended by itself';
      log?.info('The worker has stopped.', { ...worker, ...times(), why });
    },
  };
}
