/**
 * Structured logs of a process, Temporal's own included, and where its metrics are read.
 *
 * 1. Every line is scrubbed of the configuration's secrets before it is written (INV-S1).
 */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { type Logger, pino } from 'pino';
import { createScrubber } from '../activities/tools/scrub.ts';
import { CountersignError } from '../contracts/errors.ts';
import { isRefusedQuery } from '../contracts/refused-query.ts';
import type { Config } from '../contracts/schemas/config.ts';
import { secretsOf } from './secrets.ts';

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'info', WARN: 'warn', ERROR: 'error' } as const;

/** To stderr, so that stdout stays for answers. Call before the first worker or connection of the process. */
export function installLog(config: Config): Logger {
  const scrub = createScrubber(secretsOf(config));
  const stderr = pino.destination({ fd: 2, sync: true });
  const log = pino(
    { level: config.log.level, base: null },
    { write: (line: string) => stderr.write(scrub.text(line)) },
  );
  const level = config.log.level === 'trace' || config.log.level === 'debug' ? 'DEBUG' : 'WARN';
  const { metrics } = config;
  try {
    Runtime.install({
      logger: new DefaultLogger(level, ({ level: at, message, meta }) => {
        // The SDK takes it for a failure, with a stack trace; it is none (docs/adr/0044).
        if (isRefusedQuery(meta?.['error'])) log.info({ workflowId: meta?.['workflowId'] }, 'A query is asked again');
        else log[LEVELS[at]](meta === undefined ? {} : { meta }, message);
      }),
      telemetryOptions: {
        logging: { filter: { core: 'WARN', other: 'ERROR' } },
        ...(metrics === undefined ? {} : { metrics: { prometheus: { bindAddress: metrics.prometheus } } }),
      },
    });
  } catch (error) {
    if (metrics === undefined || error instanceof IllegalStateError) throw error;
    throw new CountersignError(
      'CONFIG_INVALID',
      `metrics.prometheus cannot be opened at ${metrics.prometheus}: ${error instanceof Error ? error.message : 'no reason given'}. Each worker process needs an address of its own.`,
      { path: 'metrics.prometheus' },
      { cause: error },
    );
  }
  return log;
}
