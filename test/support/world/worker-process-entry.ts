/**
 * This program is a worker process for tests that kill one. It does what `countersign worker` does, with a bundle that
 * is made once for all processes of a test.
 *
 * Its arguments are `<countersign.yaml> <role> <bundle>`; `TEMPORAL_*` give Temporal's address.
 */
import './held-tasks.ts';
import { readFile } from 'node:fs/promises';
import { bundleMark, type WorkflowBundle } from '../../../workers/bundle.ts';
import { loadConfig, type WorkerRole } from '../../../workers/config/load.ts';
import { locateEngine } from '../../../workers/connection.ts';
import { installLog } from '../../../workers/log.ts';
import { startWorkers } from '../../../workers/worker.ts';
import { POLLING } from './worker-process.ts';

const MARK = /^\/\* workflow bundle of countersign [^*]*\*\//;

const [configFile, role, bundleFile = ''] = process.argv.slice(2);
const loaded = await loadConfig(configFile, process.env);
const log = installLog(loaded.config, loaded.headerSecrets);
// Sound: the test that starts this process wrote the file.
const given = JSON.parse(await readFile(bundleFile, 'utf8')) as WorkflowBundle;
// Compiled, the same code has another mark than the sources of which the test made the bundle.
const isCompiled = import.meta.url.endsWith('.js');
const bundle = isCompiled ? { ...given, code: given.code.replace(MARK, () => bundleMark()) } : given;
// Sound: the test that starts this process names a role of the type.
const workers = await startWorkers({ loaded, ...locateEngine(), role: role as WorkerRole, bundle, log });
process.once('SIGTERM', () => void workers.stop('SIGTERM'));
process.stdout.write(`${POLLING}\n`);
await workers.stopped;
