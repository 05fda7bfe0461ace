/** The public surface for users' own tests: `countersign/testing`. */
export {
  asking,
  type ReceivedCall,
  type ScriptedAnswer,
  type ScriptedCall,
  type ScriptedQuestion,
  type ScriptedServer,
  type ScriptedTool,
  startScriptedServer,
} from './scripted-server.ts';
export {
  startTestWorld,
  type Steps,
  type TestWorld,
  type TestWorldOptions,
  type WorldConfig,
  type WorldSpec,
} from './world.ts';
