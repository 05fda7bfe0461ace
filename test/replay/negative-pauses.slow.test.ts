// Negative controls of waiting points (INV-D1).
import { testControls } from './controls.ts';
import { PAUSE_COMMANDS, PAUSE_CONTENT, PAUSE_REFUSALS } from './pause-mutations.ts';

testControls({ commands: PAUSE_COMMANDS, content: PAUSE_CONTENT, refusals: PAUSE_REFUSALS });
