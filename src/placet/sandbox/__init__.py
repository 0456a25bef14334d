"""Where effects meet the machine: files beneath a folder, and commands that end when they should.

limits       how much a command may use up
command      one command: started, fed, read, ended, with everything it started (keeper, environment)
finished     how a command ended
workspace    files beneath one folder, whatever links say (beneath, spot, refusals)
hosts        which hosts may be spoken to
"""
