// Negative controls of mode `signed`, of tasks and of stretches (INV-D1).
import { testControls } from './controls.ts';
import { SIGNED_COMMANDS, SIGNED_CONTENT, SIGNED_QUESTIONS, SIGNED_REFUSALS } from './signed-mutations.ts';
import { STRETCH_COMMANDS, STRETCH_CONTENT } from './stretch-mutations.ts';
import { TASK_COMMANDS, TASK_CONTENT } from './task-mutations.ts';

testControls({
  commands: [...SIGNED_COMMANDS, ...TASK_COMMANDS, ...STRETCH_COMMANDS],
  questions: SIGNED_QUESTIONS,
  content: [...SIGNED_CONTENT, ...TASK_CONTENT, ...STRETCH_CONTENT],
  refusals: SIGNED_REFUSALS,
});
