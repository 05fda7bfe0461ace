/** The public surface for users' own tests: `countersign/testing`. */
export { type ReceivedCall, type ScriptedServer, type ScriptedTool, startScriptedServer } from './scripted-server.ts';
export { startTestWorld, type Steps, type TestWorld, type TestWorldOptions } from './world.ts';
