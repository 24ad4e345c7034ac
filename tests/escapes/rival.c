// The injection library of another tool.
int InitializeInjection(void){return 1;}
