/** The public surface for backends that run workers in their own process: `countersign/worker`. */
export { bundleOwnWorkflows as bundleWorkflows, type OwnWorkflows, type WorkflowBundle } from './bundle.ts';
export { createDataConverter } from './codec.ts';
export { type LoadedConfig, loadConfig, roleWarnings, type WorkerRole } from './config/load.ts';
export { warningsOf } from './config/warnings.ts';
export { connectClient, type EngineAddress, type EngineWait, locateEngine } from './connection.ts';
export { installLog, type Log } from './log.ts';
export { setUpNamespace, type SetupReport } from './setup.ts';
export { startWorkers, type Workers, type WorkersOptions } from './worker.ts';
