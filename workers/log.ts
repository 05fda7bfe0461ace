/**
 * Structured logs of a process, Temporal's own included, and where its metrics are read.
 *
 * 1. Every line is one JSON object with `level`, `time` and `message`; an error in it stands as code, server and words (`log-line.ts`).
 * 2. Every line is scrubbed of the configuration's secrets, and of those of the newest tokens, before it is written (INV-S1).
 * 3. What Temporal's native part says comes the same way. It is held for a tenth of a second, and written at the latest when the
 *    process ends.
 */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { pino, stdTimeFunctions } from 'pino';
import { createScrubber } from '../activities/tools/scrub.ts';
import { CountersignError } from '../contracts/errors.ts';
import { isRefusedQuery } from '../contracts/refused-query.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { logFields } from './log-line.ts';
import { recentSecrets } from './recent-secrets.ts';
import { secretsOf } from './secrets.ts';

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** The log of this process itself; what happens in activities goes by Temporal's own logger, with the names of the run. */
export interface Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** To stderr, so that stdout stays for answers. Call before the first worker or connection of the process. */
export function installLog(config: Config): Log {
  const stderr = pino.destination({ fd: 2, sync: true });
  const write = lineWriter(config, (line) => void stderr.write(line));
  const level = config.log.level === 'trace' || config.log.level === 'debug' ? 'DEBUG' : 'WARN';
  const { metrics } = config;
  try {
    const runtime = Runtime.install({
      logger: new DefaultLogger(level, ({ level: at, message, meta }) => {
        // The SDK takes it for a failure, with a stack trace; it is none (docs/adr/0044).
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

/** @param to takes one line, with its end */
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

/** A text that is too costly to search is taken out as a whole: what is left is a word, and no object. */
function lineOf(scrubbed: string): string {
  if (scrubbed.startsWith('{') && scrubbed.endsWith('}')) return scrubbed;
  return JSON.stringify({ level: 'warn', time: new Date().toISOString(), message: scrubbed });
}

function flush(logger: object): void {
  if ('flush' in logger && typeof logger.flush === 'function') Reflect.apply(logger.flush, logger, []);
}
